#include "brigade/base/run_main.h"

#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::base::internal {

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

void write_line(std::string_view text) {
  std::cout.flush();
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::cerr << printable(str_cat(program_invocation_short_name, ": error: ", line)) << std::endl;
}

/// Other libraries append where an error was thrown.
std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

int finish_output(int code) {
  if (std::cout.flush() && std::fflush(stdout) == 0) return code;
  write_line("standard output could not be written");
  return code == 0 ? kFailed : code;
}

int report_uncaught(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    write_line(ours.what());
    return ours.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed;
  } catch (const std::bad_alloc&) {
    write_line("out of memory");
  } catch (const std::exception& other) {
    write_line(first_line(other.what()));
  } catch (...) {
    write_line("an exception that is not a std::exception");
  }
  return kFailed;
}

}  // namespace brigade::base::internal
