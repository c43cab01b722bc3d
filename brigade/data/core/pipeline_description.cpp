#include "brigade/data/core/pipeline_description.h"

#include <algorithm>
#include <cstddef>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

using base::str_cat;

/// Texts from users may hold any bytes; states must be UTF-8.
std::string in_ascii(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string ascii;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x80) {
      ascii += character;
    } else {
      ascii += str_cat("\\x", kDigits[byte / 16], kDigits[byte % 16]);
    }
  }
  return ascii;
}

/// The description as `load_pipeline_description` returns it.
PipelineDescription as_saved(const PipelineDescription& pipeline) {
  PipelineDescription saved;
  for (const PipelineStep& step : pipeline)
    saved.emplace_back(in_ascii(step.text), in_ascii(step.fixed));
  return saved;
}

bool has_same_fixed_parts(const PipelineDescription& a, const PipelineDescription& b) {
  return std::ranges::equal(a, b, {}, &PipelineStep::fixed, &PipelineStep::fixed);
}

}  // namespace

std::string describe(const PipelineDescription& pipeline) {
  std::vector<std::string> texts;
  for (const PipelineStep& step : pipeline) texts.push_back(step.text);
  return base::join(texts, " | ");
}

io::StateTree save_pipeline_description(const PipelineDescription& pipeline) {
  io::StateTree state = io::StateTree::list();
  for (const PipelineStep& step : as_saved(pipeline)) {
    if (step.fixed == step.text) {
      state.push_back(step.text);
    } else {
      state.push_back(io::StateTree::List{step.text, step.fixed});
    }
  }
  return state;
}

PipelineDescription load_pipeline_description(const io::StateTree& state) {
  PipelineDescription pipeline;
  for (const io::StateTree& step : state.as_list()) {
    if (step.kind() == io::StateKind::kString) {
      pipeline.emplace_back(step.as_string());
    } else {
      pipeline.emplace_back(step.as_string(0), step.as_string(1));
    }
  }
  return pipeline;
}

std::string difference(const PipelineDescription& there, const PipelineDescription& current) {
  const PipelineDescription here = as_saved(current);
  for (std::size_t i = 0; i < std::max(there.size(), here.size()); ++i) {
    if (i >= here.size()) return str_cat("step ", i + 1, ", ", there[i].text, ", is missing here");
    if (i >= there.size()) return str_cat("step ", i + 1, ", ", here[i].text, ", was not there");
    if (there[i] == here[i]) continue;
    return str_cat("step ", i + 1, " is ", there[i].text, " there and ", here[i].text, " here");
  }
  return "";
}

void check_same_pipeline(const PipelineDescription& saved, const PipelineDescription& current,
                         PipelineMatch match) {
  const std::string different = difference(saved, current);
  if (different.empty()) return;
  const std::string both = str_cat("The position was saved in ", describe(saved),
                                   ", and this pipeline is ", describe(current), ": ", different);
  if (match == PipelineMatch::kIgnoreLengths && has_same_fixed_parts(saved, as_saved(current))) {
    base::log_warning(both, ". It resumes after the last element that was returned.");
    return;
  }
  refuse(both, ". Restore it into the pipeline that it was saved in, or begin a new epoch.");
}

}  // namespace brigade::data
