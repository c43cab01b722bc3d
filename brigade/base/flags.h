#pragma once

#include <map>
#include <string>

namespace brigade::base {

/// The flags of a small program: values by name.
using Flags = std::map<std::string, std::string>;

/// Reads the arguments `--name=value` of a program's `main`. `defaults` has all flags; the result
/// has the same names. The last value of a flag that is given twice counts. For programs with few
/// flags of their own, in which every task of a cluster is started by hand:
///
///   const bg::Flags flags = bg::parse_flags(argc, argv, {{"task_index", "0"}, {"steps", "200"}});
///   const int steps = std::stoi(flags.at("steps"));
///
/// Throws kInvalidArgument, naming all flags, for any other argument. TensorFlow: tf.app.flags.
Flags parse_flags(int argc, const char* const* argv, const Flags& defaults);

}  // namespace brigade::base
