#include "brigade/train/callbacks/terminate_on_nan.h"

#include <cmath>

#include "brigade/base/strings.h"

namespace brigade::train {
namespace {

class TerminateOnNaNCallback final : public Callback {
 public:
  void on_train_batch_end(FitContext& fit) override {
    const double loss = fit.step_values().number("loss");
    if (std::isfinite(loss)) return;
    fit.stop(base::str_cat("the loss of batch ", fit.batches() - 1, " of epoch ", fit.epoch() + 1,
                           " is ", loss));
  }
};

}  // namespace

std::shared_ptr<Callback> TerminateOnNaN::callback() const {
  return std::make_shared<TerminateOnNaNCallback>();
}

}  // namespace brigade::train
