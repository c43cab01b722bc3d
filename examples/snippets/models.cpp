// Models, data and losses of a program's own: docs/guide/your-own-model.md.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "snippets.h"

namespace snippets {

// [two_inputs_model]
struct PriceNet : torch::nn::Module {
  PriceNet() {
    photo = register_module("photo", torch::nn::Linear(64, 16));
    facts = register_module("facts", torch::nn::Linear(4, 16));
    price = register_module("price", torch::nn::Linear(32, 1));
    kind = register_module("kind", torch::nn::Linear(32, 3));
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& pixels, const at::Tensor& numbers) {
    const at::Tensor both =
        at::cat({photo(pixels.flatten(1)).relu(), facts(numbers).relu()}, /*dim=*/1);
    return {price(both).squeeze(1), kind(both)};
  }
  torch::nn::Linear photo = nullptr, facts = nullptr, price = nullptr, kind = nullptr;
};
// [/two_inputs_model]

// [batch_struct]
struct Sale {
  using Batch = struct SaleBatch;
  at::Tensor pixels, numbers;
  float price = 0;
  std::int64_t kind = 0;
  static constexpr auto fields =
      std::tuple{&Sale::pixels, &Sale::numbers, &Sale::price, &Sale::kind};
};
struct SaleBatch {
  at::Tensor pixels, numbers, price, kind;
  static constexpr auto fields =
      std::tuple{&SaleBatch::pixels, &SaleBatch::numbers, &SaleBatch::price, &SaleBatch::kind};
};
// [/batch_struct]

void several_inputs(bg::Strategy& strategy) {
  // [two_inputs_data]
  const auto read = [](std::int64_t i) {  // the element with this index
    const auto number = static_cast<float>(i);
    return Sale{.pixels = at::full({8, 8}, 0.01F * number),
                .numbers = at::full({4}, 0.01F * number),
                .price = 0.02F * number,
                .kind = i % 3};
  };
  const auto sales = bg::from_indexed<Sale>(256, read, "sales");
  const auto batches = strategy.distribute(sales.shuffle(256).batch(32).prefetch(bg::kAutotune));
  // [/two_inputs_data]
  // [two_inputs_step]
  auto model = strategy.create<PriceNet>();
  auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const auto train_step = [&](const SaleBatch& local) {
    const auto [price, kind] = model(local.pixels, local.numbers);
    const at::Tensor error = (price - local.price).square();  // one value per example, [N]
    const at::Tensor wrong = bg::losses::sparse_categorical_crossentropy(
        kind, local.kind, {.reduction = bg::losses::Reduction::kNone});
    const at::Tensor loss = error + 0.5 * wrong;
    return adam.minimize(loss);
  };
  for (const auto& batch : batches) strategy.run(train_step, batch);
  // [/two_inputs_step]
}

struct Generator : torch::nn::Module {
  Generator() { layer = register_module("layer", torch::nn::Linear(8, 16)); }
  at::Tensor forward(const at::Tensor& noise) { return layer(noise).tanh(); }
  torch::nn::Linear layer = nullptr;
};

struct Discriminator : torch::nn::Module {
  Discriminator() { layer = register_module("layer", torch::nn::Linear(16, 1)); }
  at::Tensor forward(const at::Tensor& images) { return layer(images).squeeze(1); }
  torch::nn::Linear layer = nullptr;
};

void two_optimizers(bg::Strategy& strategy) {
  const auto images = bg::synthetic(256, {16}, 2).shuffle(256).batch(32);
  // [two_optimizers]
  auto generator = strategy.create<Generator>({.name = "generator"});
  auto discriminator = strategy.create<Discriminator>({.name = "discriminator"});
  auto for_generator = strategy.optimizer(generator, bg::optim::Adam{.learning_rate = 1e-4});
  auto for_discriminator =
      strategy.optimizer(discriminator, bg::optim::Adam{.learning_rate = 1e-4});

  const auto cost = [](const at::Tensor& logits, double label) {  // one value per example
    return at::binary_cross_entropy_with_logits(logits, at::full_like(logits, label), {}, {},
                                                at::Reduction::None);
  };
  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor noise = at::randn({local.features.size(0), 8}, local.features.options());
    const at::Tensor made = generator(noise);
    for_discriminator.minimize(cost(discriminator(local.features), 1) +
                               cost(discriminator(made.detach()), 0));
    for_generator.minimize(cost(discriminator(made), 1));  // updates the generator only
  };
  for (const auto& batch : strategy.distribute(images)) strategy.run(train_step, batch);
  // [/two_optimizers]
}

// [language_model]
struct LanguageModel : torch::nn::Module {
  explicit LanguageModel(std::int64_t words) {
    embedding = register_module("embedding", torch::nn::Embedding(words, 32));
    gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(32, 64).batch_first(true)));
    logits = register_module("logits", torch::nn::Linear(64, words));
  }
  at::Tensor forward(const at::Tensor& tokens) {  // [N, T] -> [N, T, words]
    return logits(std::get<0>(gru(embedding(tokens))));
  }
  torch::nn::Embedding embedding = nullptr;
  torch::nn::GRU gru = nullptr;
  torch::nn::Linear logits = nullptr;
};
// [/language_model]

void language_model(bg::Strategy& strategy) {
  std::vector<at::Tensor> sentences;
  for (std::int64_t i = 0; i < 64; ++i) sentences.push_back(at::arange(1, 5 + i % 7));
  // [language_model_step]
  constexpr std::int64_t kPadding = 0;  // what padded_batch fills in
  const auto text = bg::from_elements(sentences).shuffle(1000).padded_batch(16);
  auto model = strategy.create<LanguageModel>(/*words=*/20);
  auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const auto train_step = [&](bg::ReplicaContext& replica, const at::Tensor& tokens) {
    const at::Tensor inputs = tokens.slice(1, 0, -1);
    const at::Tensor targets = tokens.slice(1, 1).flatten();
    const at::Tensor sum = at::cross_entropy_loss(model(inputs).flatten(0, 1), targets, {},
                                                  at::Reduction::Sum, /*ignore_index=*/kPadding);
    const at::Tensor count =
        replica.all_reduce(bg::ReduceOp::kSum, (targets != kPadding).sum().to(at::kFloat));
    const at::Tensor loss = sum / count;  // this replica's part of the mean over all tokens
    return adam.minimize(loss, bg::LossScale::kAlreadyScaled);
  };
  for (const auto& batch : strategy.distribute(text)) {
    const auto losses = strategy.run(train_step, batch);
    const at::Tensor loss = strategy.reduce_loss(losses);  // per token
  }
  // [/language_model_step]
}

struct Classifier : torch::nn::Module {
  explicit Classifier(std::int64_t classes) {
    body = register_module("body", torch::nn::Linear(16, 32));
    last = register_module("last", torch::nn::Linear(32, classes));
  }
  at::Tensor forward(const at::Tensor& x) { return last(body(x).relu()); }
  torch::nn::Linear body = nullptr, last = nullptr;
};

void fine_tuning(bg::Strategy& strategy, const std::string& folder) {
  const auto pretrained = strategy.create<Classifier>({.name = "pretrained"}, 10);
  const std::string path = folder + "/pretrained.safetensors";
  std::vector<bg::checkpoint::NamedTensor> weights;
  for (const auto& each : pretrained.variables())
    weights.push_back({each.name().substr(std::string("pretrained.").size()), each.read()});
  bg::checkpoint::save_safetensors(*bg::io::posix_file_system(), path, weights);
  const auto images = bg::synthetic(128, {16}, 3).batch(32);
  // [fine_tuning]
  auto model = strategy.create<Classifier>(/*classes=*/3);
  bg::slim::assign_from_checkpoint(path, model.variables(), {.exclude = {"last"}});
  auto sgd = strategy.optimizer(model, bg::optim::Sgd{.learning_rate = 0.01, .momentum = 0.9},
                                {.groups = {{.names = {"body.*"}, .frozen = true}}});
  // [/fine_tuning]
  for (const auto& batch : strategy.distribute(images)) {
    strategy.run(
        [&](const bg::LabeledBatch& local) {
          sgd.minimize(
              bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        batch);
  }
}

}  // namespace snippets
