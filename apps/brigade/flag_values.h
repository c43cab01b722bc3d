#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/train/hooks/step_timer.h"

/// Checks of the values of flags. All throw UsageError, naming the flag, its value and the allowed
/// ones.
namespace brigade::command {

/// Refuses an empty value (`--key-file ""`, `--key-file=`): a shell variable that is not set must
/// not mean that the flag is not given. No flag of any command accepts an empty value. Arguments
/// after "--" belong to another program.
void check_no_empty_values(const std::vector<std::string>& arguments);

/// `word` must be one of `allowed`; the message also names the nearest of them. `what` says what it
/// is: "dataset".
void check_choice(std::string_view what, const std::string& word,
                  const std::vector<std::string>& allowed);

/// `value` must be at least `least` and no more than 2^31.
void check_at_least(const char* flag, std::int64_t value, std::int64_t least);

/// `text`, the value of the flag `names` ("-n,--nproc"), must be a whole number from `least` to
/// `most`.
void check_whole_number(const std::string& names, const std::string& text, std::int64_t least,
                        std::int64_t most);
/// `text` must be a number, such as 0.1 or 1e-3.
void check_number(const std::string& names, const std::string& text);

/// Whether 0 seconds are allowed.
enum class ZeroSeconds { kRefused, kAllowed };

/// A flag's seconds as milliseconds; at most 1000000 seconds.
std::chrono::milliseconds to_milliseconds(std::string_view flag, double seconds,
                                          ZeroSeconds zero = ZeroSeconds::kRefused);

/// Whether a flag accepts `never`.
enum class Never { kRefused, kAllowed };

/// Parses a flag such as `--save-every`: steps ("500steps"), time ("100s", "1.5m", "2h"), both
/// ("100s,500steps": whichever comes first), or `never`.
train::Every parse_interval(std::string_view flag, std::string_view text, Never never);

}  // namespace brigade::command
