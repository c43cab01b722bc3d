// Training with a batch type of the program's own: the types name their fields, and batching,
// splitting among replicas and copying to devices follow from that.
#include <brigade/brigade.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <iostream>
#include <tuple>

namespace bg = brigade;

struct House {
  using Batch = struct HouseBatch;
  at::Tensor rooms;  // their sizes
  float price = 0;   // numbers become a tensor in the batch
  static constexpr auto fields = std::tuple{&House::rooms, &House::price};
};

struct HouseBatch {
  at::Tensor rooms, prices;
  static constexpr auto fields = std::tuple{&HouseBatch::rooms, &HouseBatch::prices};
};

int main() {
  return bg::run_main([] {
    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    const auto houses = bg::synthetic(1000, {4}, 2).map([](const bg::LabeledExample& example) {
      return House{.rooms = example.features, .price = example.features.sum().item<float>()};
    });
    const auto distributed = strategy.distribute(houses.shuffle(1000).batch(50));

    auto model = strategy.create<torch::nn::LinearImpl>(4, 1);
    auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 0.05});
    const auto loss_of = [&](const HouseBatch& local) {
      return (model(local.rooms).squeeze(1) - local.prices).square().mean();
    };

    for (int epoch = 0; epoch < 3; ++epoch) {
      for (const auto& batch : distributed)
        strategy.run([&](const HouseBatch& local) { adam.minimize(loss_of(local)); }, batch);
    }
    // A step that asks which replica it is takes a context before the batch.
    const auto last = strategy.run(
        [&](bg::ReplicaContext& context, const HouseBatch& local) {
          const at::Tensor loss = loss_of(local).detach();
          std::cout << context.device().name.to_string() << ": " << local.prices.size(0)
                    << " houses\n";
          return loss;
        },
        *distributed.iterator().next());
    const double loss = strategy.reduce_mean_over_examples(last).item<double>();
    std::cout << "Loss: " << loss << "\n";
    return loss < 0.5 ? 0 : 1;
  });
}
