#include "brigade/train/callbacks/callback.h"

namespace brigade::train {
namespace {

class Functions final : public Callback {
 public:
  explicit Functions(LambdaCallback functions) : functions_(std::move(functions)) {}
  void on_epoch_begin(FitContext& fit) override { call(functions_.on_epoch_begin, fit); }
  void on_epoch_end(FitContext& fit) override { call(functions_.on_epoch_end, fit); }
  void on_train_begin(FitContext& fit) override { call(functions_.on_train_begin, fit); }
  void on_train_end(FitContext& fit) override { call(functions_.on_train_end, fit); }
  void on_train_batch_begin(FitContext& fit) override {
    call(functions_.on_train_batch_begin, fit);
  }
  void on_train_batch_end(FitContext& fit) override { call(functions_.on_train_batch_end, fit); }
  void on_test_begin(FitContext& fit) override { call(functions_.on_test_begin, fit); }
  void on_test_end(FitContext& fit) override { call(functions_.on_test_end, fit); }

 private:
  static void call(const LambdaCallback::Function& function, FitContext& fit) {
    if (function) function(fit);
  }
  const LambdaCallback functions_;
};

}  // namespace

std::shared_ptr<Callback> LambdaCallback::callback() const {
  return std::make_shared<Functions>(*this);
}

}  // namespace brigade::train
