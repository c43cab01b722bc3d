#include "apps/brigade/function_classifier.h"

#include <memory>
#include <utility>
#include <vector>

#include "brigade/distribute/function_module.h"

namespace brigade::command {

namespace {

using FunctionModel = distribute::Replicated<distribute::FunctionModule<models::ModelFunction>>;

/// One replica's view of the function model.
class FunctionClassifier final : public models::Classifier {
 public:
  FunctionClassifier(FunctionModel model, int replica)
      : Classifier("FunctionClassifier"), model_(std::move(model)), replica_(replica) {}

  at::Tensor forward(const at::Tensor& batch) override {
    return model_.replica(replica_).forward(batch);
  }
  void train(bool on) override {
    Module::train(on);
    on ? model_.replica(replica_).train() : model_.replica(replica_).eval();
  }

 private:
  FunctionModel model_;
  int replica_;
};

}  // namespace

distribute::Replicated<models::Classifier> build_classifier(distribute::Strategy& strategy,
                                                            const models::ModelFunction& function,
                                                            const at::Tensor& example) {
  const FunctionModel model =
      strategy.build(function, example.to(strategy.devices().front().torch_device));
  std::vector<std::shared_ptr<models::Classifier>> replicas;
  for (int replica = 0; replica < strategy.num_local_replicas(); ++replica)
    replicas.push_back(std::make_shared<FunctionClassifier>(model, replica));
  return {std::move(replicas), model.created()};
}

}  // namespace brigade::command
