// The tutorial on in-graph replication, complete: one model function, trained on one device and on
// towers around a controller. First with the library's function, then with the tutorial's own
// function, written out from the same parts.
//
//   example_in_graph_replication [FOLDER [EXAMPLES [TOWERS]]]
#include <brigade/brigade.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace bg = brigade;
namespace layers = bg::layers::v1;  // TensorFlow 1's tf.layers

namespace {

using Batch = bg::LabeledBatch;

constexpr std::int64_t kBatchSize = 128;
constexpr int kEpochs = 2;
constexpr const char* kController = "/cpu:0";

/// A simple model to classify 28x28 gray images: the logits [N, num_classes].
at::Tensor core_model(const at::Tensor& input_img, std::int64_t num_classes = 10) {
  const auto same = bg::layers::Padding::kSame;
  const auto relu = bg::layers::relu;
  at::Tensor net = input_img.reshape({-1, 1, 28, 28});
  net = layers::conv2d(net, 32, {5, 5}, {.padding = same, .activation = relu, .name = "conv_1"});
  net = layers::max_pooling2d(net, {2, 2}, {2, 2});
  net = layers::conv2d(net, 64, {5, 5}, {.padding = same, .activation = relu, .name = "conv_2"});
  net = layers::max_pooling2d(net, {2, 2}, {2, 2});
  net = net.reshape({-1, 64 * 7 * 7});
  net = layers::dense(net, 1024, {.activation = relu, .name = "dense_1"});
  return layers::dense(net, num_classes, {.name = "dense_2"});
}

/// Takes a function that gives the input, so that each tower can have its own batch.
at::Tensor training_model(const bg::InputFunction<Batch>& input_fn) {
  const Batch inputs = input_fn();
  return bg::losses::sparse_softmax_cross_entropy(core_model(inputs.features), inputs.labels);
}

bg::Dataset<Batch> training_dataset(const std::string& folder, std::int64_t examples) {
  return bg::fashion_mnist(folder).take(examples).repeat(kEpochs).shuffle(10'000).batch(kBatchSize);
}

/// The tutorial's own create_parallel_optimization, from its parts: towers that compute gradients,
/// their average, and one update on the controller.
bg::train::DoTrainingResult train_by_hand(const std::vector<std::string>& devices,
                                          const bg::Dataset<Batch>& dataset,
                                          const bg::train::DoTrainingOptions& loop) {
  bg::CentralStorageStrategy towers({.compute_devices = devices, .parameter_device = kController});
  const auto input_of = [](const Batch& batch) {
    return bg::InputFunction<Batch>([batch] { return batch; });
  };
  const auto model = towers.create(training_model, input_of(*dataset.iterator().next()));
  const auto adam = towers.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  // The datasets that a function makes have a batch for each tower.
  auto batches = towers.distribute_from_function([&](const auto&) { return dataset; }).iterator();
  const auto update = [&]() -> std::optional<at::Tensor> {
    const auto batch = batches.next();
    if (!batch) return std::nullopt;
    std::vector<at::Tensor> losses(batch->size());
    const auto tower_grads = towers.run(
        [&](bg::ReplicaContext& tower, const Batch& own) {
          const int id = tower.replica_id();
          const auto name = bg::name_scope("tower_" + std::to_string(id));
          const auto device =
              bg::with_device(bg::assign_to_device(tower.device().name.to_string(), kController));
          const at::Tensor loss = model(input_of(own));
          losses[static_cast<std::size_t>(id)] = loss.detach();
          return adam.compute_gradients(loss, bg::LossScale::kAlreadyScaled);
        },
        *batch);
    adam.apply_gradients(bg::average_gradients(tower_grads));
    return towers.reduce(bg::ReduceOp::kMean,
                         bg::PerReplica<at::Tensor>(losses, batch->examples()));
  };
  return bg::do_training(update, loop);
}

void check_training(const bg::train::DoTrainingResult& result) {
  std::cout << "Final loss: " << *result.final_loss << " after " << result.steps << " steps\n";
  bg::check_state(std::abs(*result.first_loss - std::log(10.0)) < 0.1, "It begins near ln 10.");
  bg::check_state(*result.final_loss < 0.75 * *result.first_loss, "The loss did not fall.");
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const int tower_count = argc > 3 ? std::atoi(argv[3]) : 2;
    const auto dataset = training_dataset(folder, examples);
    const bg::optim::Adam adam{.learning_rate = 1e-3};
    const bg::train::DoTrainingOptions loop{.log_every = 10};
    bg::TowerOptions towers;
    for (int i = 0; i < tower_count; ++i) towers.devices.push_back("/cpu:" + std::to_string(i));

    std::cout << "Serial training\n";
    const auto serial =
        bg::parallel_training<Batch>(training_model, dataset, adam, {.devices = {"/cpu:0"}}, loop);
    check_training(serial);

    std::cout << "Parallel training, " << tower_count << " towers\n";
    const auto parallel = bg::parallel_training<Batch>(training_model, dataset, adam, towers, loop);
    check_training(parallel);
    bg::check_state(parallel.steps == (serial.steps + tower_count - 1) / tower_count,
                    "Two towers take half the steps of one.");

    std::cout << "Parallel training, written out\n";
    const auto written = train_by_hand(towers.devices, dataset, loop);
    check_training(written);
    bg::check_state(written.steps == parallel.steps, "Both take the same steps.");
  });
}
