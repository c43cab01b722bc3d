// The shortest program: a model of layers, compiled and fitted on tensors under a strategy. The
// tutorial that has it asks for separate models and then trains one; for those see
// example_independent_models.
//
//   example_mlp_fit [DIRECTORY [EPOCHS]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <utility>

namespace bg = brigade;

namespace {

/// All images [N, 784], with values from 0 to 1, and their labels as rows of 0 and 1 [N, 10].
std::pair<at::Tensor, at::Tensor> load_data(const std::string& directory, bg::Split split) {
  const auto examples = bg::fashion_mnist(directory, split);
  const bg::LabeledBatch all = examples.batch(examples.cardinality()).get_single_element();
  return {all.features.reshape({-1, 784}), bg::one_hot(all.labels, 10)};
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 10;

    bg::MirroredStrategy strategy;
    const auto scope = strategy.scope();
    bg::Model model(
        bg::Sequential({bg::Dense{.units = 128, .activation = "relu"}, bg::Dense{.units = 10}},
                       {.input_shape = {{784}}}));
    model.compile({.optimizer = "adam",
                   .loss = bg::Loss("categorical_crossentropy", {.from_logits = true}),
                   .metrics = {"accuracy"}});

    const auto [x_train, y_train] = load_data(directory, bg::Split::kTrain);
    const auto [x_test, y_test] = load_data(directory, bg::Split::kTest);
    model.fit({x_train, y_train},
              {.epochs = epochs, .batch_size = 32});  // of all replicas together
    const auto results = model.evaluate({x_test, y_test});
    std::cout << "loss " << results.at("loss") << ", accuracy " << results.at("accuracy") << "\n";
    bg::check_state(results.at("accuracy") > 0.8, "The accuracy is below 0.8.");
  });
}
