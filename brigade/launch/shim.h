#pragma once

#include <span>
#include <string>

namespace brigade::launch {

/// What stands between the launcher and a program that it starts, so that nothing of the program
/// ever outlives the job: the program's grandchildren included, and whoever is killed first.
///
/// The shim is a process of its own. It opens a session, so that Ctrl-C at the terminal goes to the
/// launcher alone; becomes the one to whom orphans below it are given; starts the program; hands
/// signals on to it; and holds the reading end of a pipe whose other end only the launcher has.
/// When that end closes (the launcher died, whatever way), or the program ends, everything below
/// the shim is killed. Then it ends as the program did: with its code, or by its signal.
///
/// It is started by exec (`posix_spawn`), as ChildProcess does.

/// The word behind the executable's name that makes it a shim.
inline constexpr const char* kShimCommand = "launch-shim";
/// In place of a list of cores.
inline constexpr const char* kAllCores = "all";

/// "brigade launch-shim <lifeline> <cores> -- <program...>".
std::string shim_usage();

/// Runs the shim to its end and returns its exit code (it may also end by a signal). `arguments`
/// are those behind kShimCommand: the descriptor of the lifeline, the cores that the program may
/// use ("0-3,8", or "all"), "--", the program and its arguments.
/// 127 where the program cannot be started, with one line on standard error.
int run_shim(std::span<const std::string> arguments);

}  // namespace brigade::launch
