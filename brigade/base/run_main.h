#pragma once

#include <exception>
#include <type_traits>
#include <utility>

namespace brigade::base {

namespace internal {

/// Flushes standard output, and says so if what was written there is lost. Returns `code`, or 1.
int finish_output(int code);

/// Writes what was thrown as one line to standard error, and returns the exit code.
int report_uncaught(const std::exception_ptr& error);

}  // namespace internal

/// The frame of a program: calls `program` and returns the exit code for `main`.
///
///   int main(int argc, char** argv) {
///     return brigade::run_main([&] { train(argc, argv); });
///   }
///
/// What `program` throws ends with its text as one line on standard error, where an exception that
/// leaves `main` would end with "terminate called" and a core dump. Exit codes are those of the
/// `brigade` command, which a launcher goes by: 0 done (or what `program` returns, if it returns an
/// int), 2 for an error that is the caller's to mend (kInvalidArgument), 1 for any other, also if
/// standard output could not be written.
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
