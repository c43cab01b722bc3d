#pragma once

#include <exception>
#include <type_traits>
#include <utility>

namespace brigade::base {

namespace internal {

/// Flushes standard output and reports an error if that fails. Returns `code`, or 1 on an error.
int finish_output(int code);

/// Writes the exception's text as one line to standard error, and returns the exit code.
int report_uncaught(const std::exception_ptr& error);

}  // namespace internal

/// Calls `program` and returns the exit code for `main`.
///
///   int main(int argc, char** argv) {
///     return brigade::run_main([&] { train(argc, argv); });
///   }
///
/// An exception that `program` throws is printed as one line on standard error, instead of
/// "terminate called" and a core dump. The exit codes are those of the `brigade` command, which
/// launchers interpret: 0 done (or the int that `program` returns), 2 for a caller's error
/// (kInvalidArgument), 1 for any other, also if standard output could not be written.
template <class Program>
int run_main(Program&& program) {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Program&>>) {
      program();
      return internal::finish_output(0);
    } else {
      return internal::finish_output(program());
    }
  } catch (...) {
    return internal::report_uncaught(std::current_exception());
  }
}

}  // namespace brigade::base
