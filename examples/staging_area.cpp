// A staging area between the input and the training: while the devices train on one batch and the
// controller averages their gradients, the next one is augmented. The values do not change, which
// this program checks by training without it, too.
//
//   example_staging_area [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace bg = brigade;

namespace {

using Batch = bg::PerReplica<bg::LabeledBatch>;
using Next = std::function<std::optional<Batch>()>;

/// Slices of the next batch, shifted at random: work for the time in which devices would wait.
Next augmented_batches(const bg::Strategy& strategy,
                       const bg::Dataset<bg::LabeledExample>& examples) {
  const auto shift = [](bg::LabeledExample example, bg::ElementContext& context) {
    example.features = bg::random_crop(example.features, {.padding = 2}, context);
    return example;
  };
  const auto batches =
      std::make_shared<bg::Iterator<bg::LabeledBatch>>(examples.map(shift).batch(64).iterator());
  return [&strategy, batches] {
    const auto batch = batches->next();
    return batch ? std::optional(strategy.split_batch(*batch)) : std::nullopt;
  };
}

/// Makes batches on a thread of its own, one ahead of the training.
class StagedBatches {
 public:
  explicit StagedBatches(Next next) : thread_([this, next = std::move(next)] { stage(next); }) {}
  ~StagedBatches() {
    stop_.cancel();  // ends a wait for room, if the training has failed
    thread_.join();
  }
  std::optional<Batch> next() { return area_.get({.cancel = stop_}); }

 private:
  void stage(const Next& next) try {
    std::optional<Batch> batch;
    do {
      batch = next();
      area_.put(batch, {.cancel = stop_});
    } while (batch);  // nothing marks the end of the data
  } catch (const std::exception& error) {
    bg::base::log_error(error.what());
    stop_.cancel();  // ends the training's wait for a batch
  }

  const bg::concurrency::CancelToken stop_;
  bg::StagingArea<std::optional<Batch>> area_{{.name = "augmented batches", .capacity = 1}};
  std::thread thread_;  // the last: it uses the others
};

/// The losses of all steps.
std::vector<float> train(bg::Strategy& strategy, const Next& next) {
  const auto model = strategy.create<bg::models::MnistCnn>();
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor loss =
        bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
    return adam.minimize(loss);
  };
  std::vector<float> losses;
  while (const auto batch = next()) {
    const auto of_towers = strategy.run(train_step, *batch);
    losses.push_back(strategy.reduce_loss(of_towers).item<float>());
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t count = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const auto examples = bg::fashion_mnist(directory).take(count);
    const bg::CentralStorageOptions devices{.compute_devices = {"/cpu:0", "/cpu:1"}};

    bg::CentralStorageStrategy strategy(devices);
    StagedBatches batches(augmented_batches(strategy, examples));
    const auto staged = train(strategy, [&] { return batches.next(); });
    std::cout << "Staged: " << staged.size() << " steps, loss " << staged.front() << " to "
              << staged.back() << "\n";

    bg::CentralStorageStrategy again(devices);
    const auto direct = train(again, augmented_batches(again, examples));
    bg::check_state(staged == direct, "Staging must not change a value.");
    bg::check_state(staged.back() < 0.8F * staged.front(), "The loss did not fall.");
  });
}
