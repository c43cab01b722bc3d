#include "brigade/distribute/stage_cut.h"

#include <algorithm>
#include <utility>

#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"

namespace brigade::distribute {

StageCut::StageCut(std::vector<std::string> layers, int micro_batches)
    : layers_(std::move(layers)), passes_(static_cast<std::size_t>(micro_batches)) {}

std::optional<int> StageCut::begin_layer(int replica, std::string_view name) {
  MicroBatchPass& pass = passes_[index(replica)];
  if (pass.is_in_backward) return std::nullopt;
  const auto found = std::ranges::find(layers_, name);
  const int stage = found == layers_.end() ? 0 : static_cast<int>(found - layers_.begin()) + 1;
  if (stage > 0) check_move(pass, stage);
  if (!is_verified_ && std::ranges::find(pass.layers, name) == pass.layers.end())
    pass.layers.emplace_back(name);
  if (stage == 0) return std::nullopt;
  pass.stage = stage;
  return stage;
}

void StageCut::check_move(MicroBatchPass& pass, int stage) const {
  const auto of_stage = static_cast<std::size_t>(stage) - 1;
  const bool is_first_layer = stage == 1 && !is_verified_ && pass.layers.empty();
  if (is_first_layer) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("The pipeline is cut before ", base::quoted(layers_[of_stage]),
                              ", with which the model begins: the first stage would have no layer. "
                              "Name the layers with which the stages after the first begin."));
  }
  const bool is_next = stage == pass.stage + 1 || stage == 1;  // 1: another forward pass
  if (is_next) return;
  pass.layers.clear();
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The pipeline's layer ", base::quoted(layers_[of_stage]),
                            " begins stage ", stage, ", and the model comes to it from stage ",
                            pass.stage, ": name the layers of the cut in the order of the model (",
                            base::join(layers_, ", "), ")."));
}

void StageCut::check_is_complete(int replica) {
  if (is_verified_) return;
  MicroBatchPass& pass = passes_[index(replica)];
  if (pass.stage != last_stage()) {
    const Error error = not_reached(pass);
    pass = MicroBatchPass();
    throw error;
  }
  is_verified_ = true;
}

void StageCut::begin_backward(int replica) {
  check_is_complete(replica);
  passes_[index(replica)].is_in_backward = true;
}

Error StageCut::not_reached(const MicroBatchPass& pass) const {
  const std::string& missing = layers_[static_cast<std::size_t>(pass.stage)];
  const std::string text =
      base::str_cat("The pipeline has ", layers_.size() + 1, " stages, and the model has no layer ",
                    base::quoted(missing), " with which stage ", pass.stage + 1, " would begin");
  if (pass.layers.empty()) {
    return {ErrorCode::kInvalidArgument,
            base::str_cat(text,
                          ": it names none. Let its forward pass call begin_layer(name, x) before "
                          "its layers, or use a LayerSequence.")};
  }
  return {ErrorCode::kInvalidArgument,
          base::str_cat(text, base::did_you_mean(missing, pass.layers, "."),
                        " Its layers: ", base::join(pass.layers, ", "), ".")};
}

}  // namespace brigade::distribute
