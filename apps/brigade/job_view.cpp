#include "apps/brigade/job_view.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/brigade/json_values.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

constexpr std::chrono::seconds kPageTimeout{3};
constexpr std::size_t kNameWidth = 12;
constexpr std::size_t kMostReplicas = 64;

const runs::CurvePoint* newest(const runs::RunRecord& run, std::string_view tag) {
  const auto found = std::ranges::find(run.training, tag, &runs::Curve::tag);
  return found == run.training.end() ? nullptr : &found->points.back();
}

std::optional<double> newest_value(const runs::RunRecord& run, std::string_view tag) {
  const auto* const point = newest(run, tag);
  return point == nullptr ? std::nullopt : std::optional(point->value);
}

const runs::CheckpointRecord* newest_checkpoint(const runs::RunRecord& run) {
  const runs::CheckpointRecord* found = nullptr;
  for (const auto& each : run.checkpoints)
    if (each.problem.empty()) found = &each;
  return found;
}

std::vector<std::map<std::string, double>> newest_fractions(const runs::RunRecord& run) {
  std::vector<std::map<std::string, double>> replicas;
  for (std::size_t i = 0; i < kMostReplicas; ++i) {
    const std::string prefix = base::str_cat("step_shares/replica_", i, "/");
    std::map<std::string, double> phases;
    for (const runs::Curve& curve : run.training)
      if (curve.tag.starts_with(prefix))
        phases[base::printable(curve.tag.substr(prefix.size()))] = curve.points.back().value;
    if (phases.empty()) break;
    replicas.push_back(std::move(phases));
  }
  return replicas;
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string duration_text(double seconds) {
  if (seconds < 120) return base::str_cat(fixed(std::max(0.0, seconds), 0), " s");
  const auto minutes = static_cast<std::int64_t>(seconds / 60);
  if (minutes < 120)
    return base::str_cat(minutes, " min ", static_cast<std::int64_t>(seconds) % 60, " s");
  return base::str_cat(minutes / 60, " h ", minutes % 60, " min");
}

std::string clock_text(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

/// "[######----]", `width` characters long.
std::string bar(double fraction, std::size_t width) {
  const std::size_t inner = width - 2;
  const auto full =
      static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(inner));
  return base::str_cat("[", std::string(full, '#'), std::string(inner - full, '-'), "]");
}

/// At most `width` characters of UTF-8.
std::string cut(const std::string& line, std::size_t width) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins_one = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins_one && characters++ == width) return line.substr(0, i);
  }
  return line;
}

class Text {
 public:
  explicit Text(std::size_t width) : width_(width) {}
  void line(std::string_view name, std::string_view value) {
    const std::size_t space = kNameWidth - std::min(kNameWidth - 1, name.size());
    text_ += cut(base::str_cat(name, std::string(space, ' '), value), width_) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::size_t width_;
  std::string text_;
};

std::string fractions_text(const std::map<std::string, double>& phases) {
  std::vector<std::string> parts;
  for (const char* phase : {"input", "compute", "wait", "communication", "update"}) {
    const auto found = phases.find(phase);
    if (found != phases.end())
      parts.push_back(base::str_cat(phase, " ", fixed(100 * found->second, 0), " %"));
  }
  return base::join(parts, ", ");
}

void add_run(Text& text, const JobView& view, const JobNumbers& numbers) {
  const runs::RunRecord& run = *view.run;
  const auto known = [&](const char* name) {
    return runs::fact(run.configuration, name).value_or("unknown");
  };
  text.line("run", base::str_cat(base::printable(run.path.string()), ": ", run.state,
                                 run.holder.empty() ? "" : ", ", run.holder));
  text.line("model", base::str_cat(known("model"), " on ", known("dataset"), ", ",
                                   known("strategy"), ", ", run.devices.size(), " replicas"));
  std::string steps = with_commas(numbers.step);
  if (run.total_steps && *run.total_steps > 0) {
    const double made = static_cast<double>(numbers.step) / static_cast<double>(*run.total_steps);
    steps += base::str_cat(" of ", with_commas(*run.total_steps), "  ", bar(made, 24), "  ",
                           fixed(100 * made, 0), " %");
  }
  text.line("steps", steps);
  if (numbers.seconds_left) text.line("time left", duration_text(*numbers.seconds_left));
  if (numbers.steps_per_second) {
    std::string speed = base::str_cat(fixed(*numbers.steps_per_second, 2), " steps/s");
    if (numbers.examples_per_second)
      speed +=
          base::str_cat(", ", with_commas(static_cast<std::int64_t>(*numbers.examples_per_second)),
                        " examples/s");
    text.line("speed", speed);
  }
  if (numbers.loss) text.line("loss", fixed(*numbers.loss, 4));
  for (std::size_t i = 0; i < numbers.step_fractions.size(); ++i) {
    const std::string device = i < run.devices.size() ? ", " + run.devices[i] : "";
    text.line(i == 0 ? "step" : "", base::str_cat("replica ", i, device, ": ",
                                                  fractions_text(numbers.step_fractions[i])));
  }
  if (numbers.resident_bytes)
    text.line("memory", base::human_bytes(static_cast<std::uint64_t>(*numbers.resident_bytes)));
  if (const auto* const saved = newest_checkpoint(run))
    text.line("checkpoint", base::str_cat("step ", with_commas(saved->step), ", ",
                                          duration_text(view.time - saved->time), " ago, ",
                                          base::human_bytes(saved->bytes)));
  if (run.starts.size() > 1) text.line("restarts", std::to_string(run.starts.size() - 1));
  if (numbers.seconds_since_values)
    text.line("values",
              base::str_cat("written ", duration_text(*numbers.seconds_since_values), " ago"));
  for (const std::string& each : run.missing) text.line("missing", each);
}

void add_status(Text& text, const JobStatusPage& status) {
  if (!status.problem.empty()) return text.line("status", status.problem);
  const auto value = [&](const char* name) {
    const auto found = status.values.find(name);
    return found == status.values.end() ? 0.0 : found->second;
  };
  if (!status.is_up.empty()) {
    const auto up =
        std::ranges::count_if(status.is_up, [](const auto& each) { return each.second; });
    std::vector<std::string> down;
    for (const auto& [rank, is_up] : status.is_up)
      if (!is_up) down.push_back(rank);
    text.line("ranks", base::str_cat(up, " of ", status.is_up.size(), " up",
                                     down.empty() ? "" : ", down: ", base::join(down, " ")));
  }
  text.line("job", base::str_cat(status.is_stopping ? "stopping" : "running", ", generation ",
                                 fixed(value("brigade_job_generation"), 0), ", restarts ",
                                 fixed(value("brigade_job_restarts_total"), 0), ", up for ",
                                 duration_text(value("brigade_job_uptime_seconds"))));
}

Json json_of(const JobStatusPage& status) {
  Json ranks = Json::object();
  for (const auto& [rank, is_up] : status.is_up) ranks[rank] = is_up;
  return {{"problem", status.problem.empty() ? Json() : Json(status.problem)},
          {"stopping", status.is_stopping},
          {"ranks_up", ranks},
          {"metrics", status.values}};
}

}  // namespace

JobStatusPage parse_metrics(const std::string& text) {
  JobStatusPage page;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.rfind(' ');
    if (space == std::string::npos) continue;
    const std::string name = base::printable(line.substr(0, space));
    double value = 0;
    std::istringstream(line.substr(space + 1)) >> value;
    constexpr std::string_view kRank = "brigade_rank_up{rank=\"";
    if (name.starts_with(kRank)) {
      page.is_up[name.substr(kRank.size(), name.find('"', kRank.size()) - kRank.size())] =
          value != 0;
    } else if (name.find('{') == std::string::npos) {
      page.values[name] = value;
    }
  }
  return page;
}

JobStatusPage read_status_page(const rpc::LocalUrl& url) {
  JobStatusPage page =
      parse_metrics(rpc::http_get({.port = url.port, .path = "/metrics"}, kPageTimeout).body);
  constexpr int kUnavailable = 503;
  page.is_stopping =
      rpc::http_get({.port = url.port, .path = "/healthz"}, kPageTimeout).status == kUnavailable;
  return page;
}

JobNumbers numbers_of(const JobView& view) {
  JobNumbers numbers;
  if (!view.run) return numbers;
  const runs::RunRecord& run = *view.run;
  for (const runs::Curve& curve : run.training)
    numbers.step = std::max(numbers.step, curve.points.back().step);
  if (const auto* const saved = newest_checkpoint(run))
    numbers.step = std::max(numbers.step, saved->step);
  numbers.loss = newest_value(run, "loss");
  numbers.resident_bytes = newest_value(run, "memory/resident_bytes");
  numbers.steps_per_second = newest_value(run, "global_step/sec");
  numbers.step_fractions = newest_fractions(run);
  if (run.last_time > 0) numbers.seconds_since_values = std::max(0.0, view.time - run.last_time);
  if (numbers.steps_per_second && run.examples_per_step)
    numbers.examples_per_second =
        *numbers.steps_per_second * static_cast<double>(*run.examples_per_step);
  const bool is_running = run.state == runs::RunState::kRunning;
  if (is_running && run.total_steps && numbers.steps_per_second.value_or(0) > 0) {
    const auto left = static_cast<double>(*run.total_steps - numbers.step);
    numbers.seconds_left =
        std::max(0.0, left / *numbers.steps_per_second - numbers.seconds_since_values.value_or(0));
  }
  return numbers;
}

Json json_of(const JobView& view) {
  const JobNumbers numbers = numbers_of(view);
  Json json;
  json["time"] = view.time;
  json["model_dir"] = view.run ? Json(view.run->path.string()) : Json();
  json["state"] = view.run ? Json(to_string(view.run->state)) : Json();
  json["step"] = view.run ? Json(numbers.step) : Json();
  json["total_steps"] = view.run ? number_or_null(view.run->total_steps) : Json();
  json["steps_per_second"] = number_or_null(numbers.steps_per_second);
  json["examples_per_second"] = number_or_null(numbers.examples_per_second);
  json["seconds_left"] = number_or_null(numbers.seconds_left);
  json["loss"] = number_or_null(numbers.loss);
  json["step_shares"] = numbers.step_fractions;
  json["resident_bytes"] = number_or_null(numbers.resident_bytes);
  json["seconds_since_values"] = number_or_null(numbers.seconds_since_values);
  const auto* const saved = view.run ? newest_checkpoint(*view.run) : nullptr;
  json["checkpoint_step"] = saved == nullptr ? Json() : Json(saved->step);
  json["checkpoint_time"] = saved == nullptr ? Json() : Json(saved->time);
  json["restarts"] =
      view.run ? Json(std::max<std::size_t>(view.run->starts.size(), 1) - 1) : Json();
  json["missing"] = view.run ? Json(view.run->missing) : Json::array();
  json["status"] = view.status ? json_of(*view.status) : Json();
  return json;
}

std::string text_of(const JobView& view, std::size_t width) {
  Text text(width);
  text.line("time", clock_text(view.time));
  if (view.status) add_status(text, *view.status);
  if (view.run) add_run(text, view, numbers_of(view));
  return text.text();
}

}  // namespace brigade::command
