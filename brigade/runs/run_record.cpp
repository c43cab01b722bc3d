#include "brigade/runs/run_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/io/lock_file.h"
#include "brigade/io/strict_json.h"

namespace brigade::runs {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(std::string_view text) {
  std::string printable = base::printable(text);
  if (printable.size() <= kLongestFact) return printable;
  printable.resize(kLongestFact - 3);
  while (!base::is_utf8(printable)) printable.pop_back();
  return printable + "...";
}

std::string text_of(const Json& value) {
  if (value.is_string()) return shown(value.get<std::string>());
  if (value.is_null()) return "-";
  if (!value.is_array()) return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::vector<std::string> elements;
  for (const Json& each : value) elements.push_back(text_of(each));
  return shown(base::join(elements, ", "));
}

std::vector<RunFact> facts_of(const Json& object,
                              std::initializer_list<std::string_view> but = {}) {
  std::vector<RunFact> facts;
  if (!object.is_object()) return facts;
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(but, key) == but.end()) facts.emplace_back(shown(key), text_of(value));
  return facts;
}

const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::optional<std::int64_t> whole(const Json& value) {
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::vector<PhaseFractions> step_fractions(const Json& replicas) {
  std::vector<PhaseFractions> all;
  if (!replicas.is_array()) return all;
  for (const Json& replica : replicas) {
    if (!replica.is_object()) continue;
    PhaseFractions& fractions = all.emplace_back();
    for (const auto& [phase, fraction] : replica.items())
      if (fraction.is_number()) fractions.emplace_back(shown(phase), fraction.get<double>());
  }
  return all;
}

RunState state_of(const io::Path& path, const Json& result) {
  if (io::LockFile::is_held(path / "run.lock")) return RunState::kRunning;
  if (!result.is_object()) return RunState::kBroken;
  return member(result, "interrupted") == true ? RunState::kInterrupted : RunState::kFinished;
}

void add_configuration(RunRecord& run, const Json& configuration) {
  run.configuration = facts_of(configuration);
  run.workers = whole(member(configuration, "workers"));
  for (const Json& device : member(configuration, "devices"))
    run.devices.push_back(text_of(device));
  const auto batch = whole(member(configuration, "global_batch_size"));
  const auto accumulate = whole(member(configuration, "accumulate"));
  constexpr std::int64_t kMost = 1'000'000'000;
  if (batch && *batch > 0 && *batch < kMost && accumulate.value_or(1) < kMost)
    run.examples_per_step = *batch * accumulate.value_or(1);
}

Json parse_run_json(const io::FileSystem& files, const io::Path& path) {
  const std::string text = io::read_at_most(files, path, io::kMostBytesOfText);
  constexpr std::size_t kDeepest = 32;
  io::parse_strict_json(text, kDeepest, [&](const std::string& why) {
    throw Error(ErrorCode::kDataLoss, path, " is not a valid run.json: ", why);
  });
  return Json::parse(text);  // the same, with the keys in their order
}

void read_run_json(RunRecord& run, const io::FileSystem& files) {
  const io::Path path = run.path / "run.json";
  if (!files.exists(path)) {
    run.missing.push_back(
        "There is no run.json: the configuration, the result and the machine are not known. "
        "`brigade train` writes it.");
    return;
  }
  Json json;
  try {
    json = parse_run_json(files, path);
  } catch (const Error& error) {
    run.missing.push_back(shown(error.what()));
    return;
  }
  add_configuration(run, member(json, "configuration"));
  const Json& result = member(json, "result");
  run.result = facts_of(result, {"step_shares", "evaluations"});
  run.step_fractions = step_fractions(member(result, "step_shares"));
  run.machine = facts_of(member(json, "machine"));
  run.total_steps = whole(member(json, "total_steps"));
  run.state = state_of(run.path, result);
  if (run.state == RunState::kRunning)
    run.holder = shown(io::LockFile::holder(run.path / "run.lock"));
  if (run.machine.empty()) run.missing.push_back("run.json says nothing of the machine.");
  if (run.state == RunState::kBroken)
    run.missing.push_back(
        "The run has no result, and no process works on it: it was killed or has failed. The same "
        "command resumes it from its newest checkpoint.");
}

std::vector<Curve> values_of(const std::map<std::string, Curve>& curves) {
  std::vector<Curve> all;
  for (const auto& [tag, curve] : curves)
    if (!curve.points.empty()) all.push_back(curve);
  return all;
}

void read_checkpoints(RunRecord& run, const io::FileSystem& files) {
  try {
    for (const auto& entry : checkpoint::list_checkpoints(files, run.path / "checkpoints")) {
      CheckpointRecord& record = run.checkpoints.emplace_back(
          CheckpointRecord{.name = shown(entry.path.filename().string()),
                           .step = entry.step,
                           .problem = shown(entry.reason)});
      if (!entry.manifest) continue;
      record.time = std::chrono::duration<double>(entry.manifest->time).count();
      record.bytes = entry.manifest->bytes();
    }
  } catch (const Error& error) {
    run.missing.push_back(shown(error.what()));
  }
}

bool has_anything(const RunRecord& run, const io::FileSystem& files) {
  return files.exists(run.path / "run.json") || files.exists(run.path / "checkpoints") ||
         !summary::event_files(files, run.path).empty();
}

}  // namespace

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::kFinished:
      return "finished";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kRunning:
      return "running";
    case RunState::kBroken:
      return "ended without a result";
    case RunState::kUnknown:
      break;
  }
  return "unknown";
}

RunReader::RunReader(std::shared_ptr<io::FileSystem> files, io::Path path)
    : files_(std::move(files)),
      path_(std::move(path)),
      training_(files_, path_),
      evaluation_(files_, path_ / "eval") {}

void RunReader::read_events(RunRecord& run) {
  for (EventHistory* const each : {&training_, &evaluation_}) {
    each->update();
    for (const std::string& problem : each->problems()) run.missing.push_back(shown(problem));
  }
  run.training = values_of(training_.curves());
  run.evaluation = values_of(evaluation_.curves());
  run.starts = training_.starts();
  for (ProcessStart& each : run.starts) {
    each.host = shown(each.host);
    each.process = shown(each.process);
  }
  run.last_time = training_.last_time();
  if (run.training.empty())
    run.missing.push_back(
        "There are no values in event files: no curves, rates, times or memory. They are written "
        "unless summaries are switched off.");
}

RunRecord RunReader::read() {
  const auto info = files_->info(path_);
  if (info && info->kind != io::FileKind::kDirectory) {
    throw Error(ErrorCode::kInvalidArgument, base::printable(path_.string()),
                " is not a folder; give the model directory of a training");
  }
  const io::Path absolute = std::filesystem::absolute(path_ / "").lexically_normal();
  RunRecord run{.path = path_, .name = shown(absolute.parent_path().filename().string())};
  if (!info || !has_anything(run, *files_)) {
    throw Error(
        ErrorCode::kNotFound, base::printable(path_.string()),
        info ? " is not a model directory: it has no run.json, no event files and no checkpoints"
             : " does not exist",
        "; give the model directory of a training");
  }
  read_run_json(run, *files_);
  read_events(run);
  read_checkpoints(run, *files_);
  return run;
}

std::optional<std::string> fact(const std::vector<RunFact>& facts, std::string_view name) {
  const auto found = std::ranges::find(facts, name, &RunFact::first);
  return found == facts.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace brigade::runs
