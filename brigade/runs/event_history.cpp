#include "brigade/runs/event_history.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::runs {
namespace {

constexpr std::size_t kLongestCurve = 20'000;
constexpr std::size_t kLongestTag = 1'000;

struct Writer {
  std::string host;
  std::string process;
};

/// events.out.tfevents.<seconds>.<host>.<process>.<n>, where a host may have dots.
Writer writer_of(const io::Path& file) {
  const std::vector<std::string> parts = base::split(file.filename().string(), '.');
  constexpr std::size_t kBeforeHost = 4;
  const std::size_t count = parts.size();
  if (count < kBeforeHost + 3 || parts[2] != "tfevents" || !base::parse_int(parts[count - 1]) ||
      !base::parse_int(parts[count - 2]))
    return {};
  const std::vector<std::string> host(parts.begin() + kBeforeHost, parts.end() - 2);
  return {.host = base::join(host, "."), .process = parts[count - 2]};
}

}  // namespace

EventHistory::EventHistory(std::shared_ptr<const io::FileSystem> files, io::Path folder)
    : files_(std::move(files)), folder_(std::move(folder)) {}

void EventHistory::update() {
  const auto info = files_->info(folder_);
  if (!info || info->kind != io::FileKind::kDirectory) return;
  if (reader_) read_to_end(newest_);  // what its writer has added before the next file began
  for (const io::Path& file : summary::event_files(*files_, folder_)) {
    if (!seen_.insert(file).second) continue;
    newest_ = file;
    reader_.reset();
    try {
      reader_ = std::make_unique<summary::EventFileReader>(*files_, file);
    } catch (const Error& error) {
      problems_.push_back(error.what());
      continue;
    }
    read_to_end(file);
  }
}

void EventHistory::read_to_end(const io::Path& file) {
  try {
    while (const auto event = reader_->next()) add(*event, file);
  } catch (const Error& error) {
    problems_.push_back(base::str_cat(error.what(), " The rest of the file is left out."));
    reader_.reset();
  }
}

void EventHistory::add(const summary::Event& event, const io::Path& file) {
  if (std::holds_alternative<summary::SessionStart>(event.content)) begin_process(event, file);
  if (const auto* const summary = std::get_if<summary::Summary>(&event.content)) {
    for (const summary::TaggedValue& each : summary->values) {
      const auto* const scalar = std::get_if<summary::Scalar>(&each.value);
      if (scalar == nullptr || each.tag.size() > kLongestTag) continue;
      add(each.tag, {.step = event.step, .value = scalar->value, .time = event.wall_time});
    }
    last_step_ = std::max(last_step_, event.step);
    last_time_ = std::max(last_time_, event.wall_time);
  }
}

void EventHistory::begin_process(const summary::Event& event, const io::Path& file) {
  const Writer writer = writer_of(file);
  starts_.push_back({.time = event.wall_time,
                     .step = event.step,
                     .repeated = std::max<std::int64_t>(0, last_step_ - event.step + 1),
                     .pause = starts_.empty() ? 0 : std::max(0.0, event.wall_time - last_time_),
                     .host = writer.host,
                     .process = writer.process});
  for (auto& [tag, curve] : curves_)
    std::erase_if(curve.points, [&](const CurvePoint& each) { return each.step >= event.step; });
  last_step_ = std::min(last_step_, event.step - 1);
}

void EventHistory::add(const std::string& tag, const CurvePoint& point) {
  if (!curves_.contains(tag) && curves_.size() == kMostCurves) {
    ++left_out_;
    return;
  }
  Curve& curve = curves_[tag];
  curve.tag = tag;
  curve.points.push_back(point);
  if (curve.points.size() > kLongestCurve) curve.points = thinned(curve.points, kLongestCurve / 2);
}

std::vector<std::string> EventHistory::problems() const {
  std::vector<std::string> all = problems_;
  if (left_out_ > 0) {
    all.push_back(base::str_cat("The event files in ", folder_, " have more than ", kMostCurves,
                                " tags; ", left_out_, " values of the others are left out."));
  }
  return all;
}

}  // namespace brigade::runs
