#pragma once

#include <span>
#include <string>

namespace brigade::launch {

/// A process between the launcher and a program that it starts. It ensures that neither the program
/// nor its descendants outlive the job, whichever process is killed first.
///
/// The shim opens its own session, so that Ctrl-C at the terminal reaches only the launcher;
/// becomes a subreaper, which inherits orphans below it; starts the program; forwards signals to
/// it; and holds one of two connected sockets (the lifeline) of which only the launcher has the
/// other one. When that closes (the launcher died in any way), or the program ends, the shim kills
/// all its descendants. Then it ends as the program did: with its exit code, or by its signal. When
/// it has forwarded a signal it writes a byte to the lifeline, so that the launcher knows whether a
/// program had been asked to end when it ended.
///
/// It is started by exec (`posix_spawn`), as ChildProcess does.

/// The first argument of an executable that runs as a shim.
inline constexpr const char* kShimCommand = "launch-shim";
/// Stands for all cores in place of a list.
inline constexpr const char* kAllCores = "all";

/// Runs the shim to its end and returns its exit code (it may also end by a signal). `arguments`
/// are those after kShimCommand: the descriptor of the lifeline, the cores that the program may use
/// ("0-3,8", or "all"), "--", the program and its arguments. Returns 127, with one line on standard
/// error, if the program cannot be started.
int run_shim(std::span<const std::string> arguments);

}  // namespace brigade::launch
