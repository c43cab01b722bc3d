#include "apps/brigade/watch_flags.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/brigade/exit_code.h"
#include "apps/brigade/interval_flag.h"
#include "apps/brigade/run_directory.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {

namespace {

constexpr const char* kWatchGroup = "Watching";
constexpr const char* kSummariesEvery = "100steps";

train::StepRange parse_steps(const std::string& text) {
  const std::vector<std::string> ends = base::split(text, ':');
  const auto first = base::parse_int(ends.front());
  const auto last = base::parse_int(ends.back());
  if (ends.size() == 2 && first && last && *first >= 1 && *last >= *first) {
    return {.first = *first, .last = *last};
  }
  throw UsageError(base::str_cat("--profile-steps is ", base::quoted(text),
                                 "; give the first and the last step, both included, such as "
                                 "10:20; the first step of a training is 1"));
}

}  // namespace

void WatchFlags::add_to(CLI::App& app) {
  add_interval(app, "--summaries-every", summaries_every,
               base::str_cat("How often the loss and the speed are written for TensorBoard: "
                             "100steps, 10s, both, or never (default ",
                             kSummariesEvery, ")"))
      ->group(kWatchGroup);
  app.add_option("--profile-steps", profile_steps,
                 "Write a Chrome trace of these steps, both included, into the model directory's "
                 "profile/")
      ->option_text("A:B")
      ->group(kWatchGroup);
  add_interval(app, "--eval-every", eval_every,
               "Evaluate on the test split every 500steps, 60s, or both, while training (default "
               "never)")
      ->group(kWatchGroup);
  app.add_option("--eval", eval, "Evaluate on the test split: end, none")
      ->capture_default_str()
      ->group(kWatchGroup);
  app.add_option("--log-every", log_every, "Seconds between progress reports on standard error")
      ->group(kWatchGroup);
}

void WatchFlags::check(const std::string& model_dir) const {
  if (summaries_every) parse_interval("--summaries-every", *summaries_every, Never::kAllowed);
  profiled();
  evaluations();
  check_choice("value of --eval", eval, {"end", "none"});
  if (log_every && !(*log_every >= 0.0 && *log_every <= 1e6)) {
    throw UsageError(base::str_cat("--log-every is ", *log_every, "; give seconds, 0 to 1000000"));
  }
  if (!model_dir.empty()) return;
  if (summaries_every) {
    throw UsageError("--summaries-every needs --model-dir, the folder for event files");
  }
  if (profile_steps)
    throw UsageError("--profile-steps needs --model-dir, the folder for the profile");
}

train::Every WatchFlags::evaluations() const {
  return eval_every ? parse_interval("--eval-every", *eval_every, Never::kAllowed) : train::Every{};
}

std::optional<train::StepRange> WatchFlags::profiled() const {
  if (!profile_steps) return std::nullopt;
  return parse_steps(*profile_steps);
}

void WatchFlags::add_to(train::SessionOptions& options, const io::Path& model_dir) const {
  if (model_dir.empty()) return;
  const train::Every summaries = parse_interval(
      "--summaries-every", summaries_every.value_or(kSummariesEvery), Never::kAllowed);
  if (!summaries.is_never()) options.summary_dir = model_dir;
  options.save_summaries = summaries;
  options.log_step_count = summaries;
  if (const auto steps = profiled()) {
    options.hooks.push_back(std::make_shared<train::ProfilerHook>(
        train::ProfilerHookOptions{.directory = profile_in(model_dir), .steps = steps}));
  }
}

}  // namespace brigade::command
