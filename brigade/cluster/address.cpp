#include "brigade/cluster/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::cluster {
namespace {

constexpr int kHighestPort = 65535;
constexpr std::size_t kLongestHost = 255;  // of names in the DNS

struct LoopbackName {
  std::string_view name;
  std::string_view address;
};
// As /etc/hosts of the distributions has them.
constexpr std::array<LoopbackName, 7> kLoopbackNames = {{{"localhost", "127.0.0.1"},
                                                         {"localhost.localdomain", "127.0.0.1"},
                                                         {"localhost4", "127.0.0.1"},
                                                         {"localhost6", "::1"},
                                                         {"ip6-localhost", "::1"},
                                                         {"ip6-loopback", "::1"},
                                                         {"localhost6.localdomain6", "::1"}}};

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, base::quoted(text), " is not an address: ", why,
              "; write host:port, or [IPv6]:port, as in worker0.example.org:2222.");
}

int port_of(std::string_view digits, std::string_view text, PortZero port_zero) {
  if (digits.empty()) refuse(text, "it has no port");
  const bool is_number = digits.find_first_not_of("0123456789") == std::string_view::npos;
  const auto port = is_number ? base::parse_int(digits) : std::nullopt;
  const int lowest = port_zero == PortZero::kAllowed ? 0 : 1;
  if (!port || *port < lowest || *port > kHighestPort) {
    refuse(text, base::str_cat("its port ", base::quoted(digits), " is not a number from ", lowest,
                               " to ", kHighestPort));
  }
  return static_cast<int>(*port);
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_address6_character(char c) {
  return is_host_character(c) || c == ':' || c == '%';  // %: the zone of a link-local address
}

void check_host(std::string_view host, std::string_view text, bool (*is_allowed)(char)) {
  if (host.empty()) refuse(text, "it has no host");
  if (host.size() > kLongestHost) {
    refuse(text, base::str_cat("its host has ", host.size(), " characters; at most ", kLongestHost,
                               " are allowed"));
  }
  for (const char c : host) {
    if (!is_allowed(c))
      refuse(text,
             base::str_cat("no host has the character ", base::quoted(std::string_view(&c, 1))));
  }
}

Address bracketed(std::string_view text, PortZero port_zero) {
  const std::size_t end = text.find(']');
  if (end == std::string_view::npos) refuse(text, "a ']' is missing");
  const std::string_view host = text.substr(1, end - 1);
  check_host(host, text, is_address6_character);
  const std::string_view rest = text.substr(end + 1);
  if (rest.empty() || rest.front() != ':') refuse(text, "it has no port");
  return {std::string(host), port_of(rest.substr(1), text, port_zero)};
}

}  // namespace

Address parse_address(std::string_view text, PortZero port_zero) {
  if (text.starts_with('[')) return bracketed(text, port_zero);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) refuse(text, "it has no port");
  if (text.find("://") != std::string_view::npos) refuse(text, "a protocol does not belong to it");
  if (text.find(':', colon + 1) != std::string_view::npos) {
    refuse(text, "it has more than one ':'; an IPv6 address stands in brackets");
  }
  check_host(text.substr(0, colon), text, is_host_character);
  return {std::string(text.substr(0, colon)), port_of(text.substr(colon + 1), text, port_zero)};
}

std::optional<std::string> loopback_address(std::string_view host) {
  const std::string name = base::lower_case(host);
  in_addr ipv4 = {};
  if (inet_pton(AF_INET, name.c_str(), &ipv4) == 1)
    return ntohl(ipv4.s_addr) >> 24 == IN_LOOPBACKNET ? std::optional(name) : std::nullopt;
  in6_addr ipv6 = {};
  if (inet_pton(AF_INET6, name.c_str(), &ipv6) == 1) {
    if (IN6_IS_ADDR_LOOPBACK(&ipv6)) return name;
    if (!IN6_IS_ADDR_V4MAPPED(&ipv6)) return std::nullopt;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &ipv6.s6_addr[12], text.data(), text.size());
    return loopback_address(text.data());
  }
  const auto known = std::ranges::find(kLoopbackNames, name, &LoopbackName::name);
  if (known == kLoopbackNames.end()) return std::nullopt;
  return std::string(known->address);
}

bool is_loopback(std::string_view host) {
  return loopback_address(host).has_value();
}

std::string to_string(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? base::str_cat("[", address.host, "]:", address.port)
                 : base::str_cat(address.host, ":", address.port);
}

}  // namespace brigade::cluster
