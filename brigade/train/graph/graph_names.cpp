#include "brigade/train/graph/graph_names.h"

#include <algorithm>
#include <cctype>

#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::string_view parent(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace

std::string graph_path(std::string_view variable) {
  std::string path(variable);
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string layer_of(std::string_view path) {
  const std::string_view above = parent(path);
  const bool is_part = path.substr(path.rfind('/') + 1).starts_with("part_");
  return std::string(is_part ? parent(above) : above);
}

std::string operation_kind(std::string_view node) {
  if (const auto open = node.find("CppNode<"); open != node.npos) {
    node = node.substr(0, node.rfind('>'));
    node.remove_prefix(open + std::string_view("CppNode<").size());
  }
  if (const auto colons = node.rfind("::"); colons != node.npos) node.remove_prefix(colons + 2);
  while (!node.empty() && is_digit(node.back())) node.remove_suffix(1);
  if (node.ends_with("Backward")) node.remove_suffix(std::string_view("Backward").size());
  std::string kind;
  for (const char c : node) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') kind += c;
  }
  return kind.empty() ? "Operation" : kind;
}

std::string UniqueNames::unique(const std::string& name) {
  std::string candidate = name;
  for (int& count = used_[name]; count > 0 && used_.contains(candidate); ++count)
    candidate = base::str_cat(name, "_", count);
  ++used_[candidate];
  return candidate;
}

}  // namespace brigade::train
