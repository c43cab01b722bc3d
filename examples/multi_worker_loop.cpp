// A training loop of several workers, each with its own input pipeline, which a function makes: the
// worker's shard of the data, in batches for its replicas. For two processes on this machine:
//
//   example_multi_worker_loop --index=0
//   example_multi_worker_loop --index=1
//
// A TF_CONFIG that is set already takes precedence. Further flags: --workers (the addresses, with
// commas between them).
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace bg = brigade;

namespace {

constexpr std::int64_t kExamples = 2000;
constexpr std::int64_t kGlobalBatch = 64;

/// Keeps a TF_CONFIG that is already there.
void set_tf_config(const bg::Flags& flags) {
  std::string workers = flags.at("workers");
  for (std::size_t at = 0; (at = workers.find(',', at)) != std::string::npos; at += 3)
    workers.replace(at, 1, "\",\"");
  const std::string config = R"({"cluster": {"worker": [")" + workers +
                             R"("]}, "task": {"type": "worker", "index": )" + flags.at("index") +
                             "}}";
  setenv("TF_CONFIG", config.c_str(), /*overwrite=*/0);
}

void train(bg::Strategy& strategy) {
  std::cout << "Number of devices: " << strategy.num_replicas_in_sync() << std::endl;
  const auto scope = strategy.scope();
  const auto model =
      strategy.create(bg::Sequential({bg::Dense{.units = 128, .activation = "relu"},
                                      bg::Dense{.units = 10, .activation = "softmax"}}),
                      at::zeros({1, 10}));
  const auto optimizer = bg::optimizer(model, bg::optim::Adam{.learning_rate = 0.001});
  const bg::metrics::Mean train_loss("loss");
  const bg::metrics::CategoricalAccuracy train_accuracy("accuracy");

  // The same examples in every worker: they have a seed. Sharded before they are shuffled and put
  // into batches, so the shards are parts of the examples.
  const auto examples = bg::synthetic(kExamples, {10}, 10, /*seed=*/1);
  const auto distributed =
      strategy.distribute_from_function([&](const bg::InputContext& input_context) {
        return examples.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
            .shuffle(kExamples)
            .batch(input_context.get_per_replica_batch_size(kGlobalBatch))
            .prefetch(bg::kAutotune);
      });

  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor labels =
        bg::one_hot(local.labels, 10);  // a distribution, unlike the tutorial's
    const at::Tensor predictions = model(local.features);
    const at::Tensor losses = bg::losses::categorical_crossentropy(
        predictions, labels, {.from_logits = false, .reduction = bg::losses::Reduction::kNone});
    optimizer.minimize(losses);  // the mean over the examples of all workers
    train_loss.update_state(losses);
    train_accuracy.update_state(labels, predictions);
  };

  double first = 0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    train_loss.reset_state();
    train_accuracy.reset_state();
    for (const auto& batch : distributed) strategy.run(train_step, batch);
    if (epoch == 0) first = train_loss.result();
    std::cout << "Epoch " << epoch + 1 << " Loss: " << train_loss.result()
              << " Accuracy: " << train_accuracy.result() << std::endl;
    bg::check_state(train_loss.count() == kExamples, "Each example must count once an epoch.");
  }
  bg::check_state(train_loss.result() < 0.8 * first, "The loss did not fall.");
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    set_tf_config(bg::parse_flags(
        argc, argv, {{"index", "0"}, {"workers", "localhost:12345,localhost:12346"}}));
    bg::MultiWorkerMirroredStrategy strategy;  // returns when all workers are there
    train(strategy);
  });
}
