// Models with several inputs and outputs, sample weights and class weights. Histories are those of
// Keras 3.15 (tools/keras/fit_values.py) in float64, for the same layers, data and batches.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/core/source.h"
#include "brigade/data/transforms/zip.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

using distribute::error_from;
using input::NamedTensors;
using Values = std::map<std::string, std::vector<double>>;

FitOptions three_epochs() {
  return {.epochs = 3, .batch_size = 10, .shuffle = false, .verbose = Verbose::kSilent};
}

at::Tensor zero_dense(const at::Tensor& x, const std::string& name, std::int64_t units = 1) {
  return layers::v1::dense(x, units,
                           {.kernel_initializer = variables::zeros_initializer(), .name = name});
}

auto two_heads() {
  return [](const at::Tensor& x, variables::Mode) {
    return NamedTensors({{"main", zero_dense(x, "main")}, {"aux", zero_dense(x, "aux")}});
  };
}

CompileOptions two_losses() {
  return {.optimizer = optim::Sgd{.learning_rate = 0.1},
          .losses = {{"main", "mse"}, {"aux", "mae"}},
          .loss_weights = {{"aux", 0.4}},
          .output_metrics = {{"main", {"mae"}}, {"aux", {"mse"}}}};
}

struct Points {
  at::Tensor x, y;
};
Points points(std::int64_t count) {
  const at::Tensor i = at::arange(count, at::kDouble);
  const at::Tensor x = at::stack({(i * 0.7).sin(), (i * 1.3).cos()}, 1);
  return {.x = x, .y = x.select(1, 0) - 2 * x.select(1, 1) + 1};
}
at::Tensor weights(std::int64_t count) {
  return at::arange(count, at::kDouble).remainder(3) + 0.5;
}
at::Tensor other_weights(std::int64_t count) {
  return 2 - at::arange(count, at::kDouble).remainder(2);
}

std::vector<std::unique_ptr<distribute::Strategy>> replicas_one_to_three() {
  std::vector<std::unique_ptr<distribute::Strategy>> all;
  all.push_back(std::make_unique<distribute::OneDeviceStrategy>("cpu:0"));
  all.push_back(std::make_unique<distribute::MirroredStrategy>(distribute::cpus(2)));
  all.push_back(std::make_unique<distribute::MirroredStrategy>(distribute::cpus(3)));
  return all;
}

void expect_near(const Values& seen, const Values& expected, double tolerance) {
  EXPECT_EQ(seen.size(), expected.size());
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(seen.contains(name)) << name;
    ASSERT_EQ(seen.at(name).size(), values.size()) << name;
    for (std::size_t epoch = 0; epoch < values.size(); ++epoch)
      EXPECT_NEAR(seen.at(name)[epoch], values[epoch], tolerance) << name << " of " << epoch;
  }
}

Values as_values(const Logs& logs) {
  Values values;
  for (const auto& [name, value] : logs) values[name] = {value};
  return values;
}

TEST(ModelOutputs, SeveralLossesAreThoseOfKerasForAnyNumberOfReplicas) {
  const Values expected = {
      {"aux_loss", {1.5191231702444594, 1.4541709367574749, 1.390164936816114}},
      {"aux_mse", {3.4669241898064365, 3.1701930800659994, 2.8942858803771148}},
      {"loss", {3.098820346212027, 1.4794727092362776, 0.9086120968770418}},
      {"main_loss", {2.4911710781142435, 0.897804334533288, 0.3525461221505961}},
      {"main_mae", {1.2762585190132534, 0.7823800556079842, 0.49991659037932196}},
      {"val_aux_loss", {1.4358139635295526, 1.3739451309399702, 1.3120762983503877}},
      {"val_aux_mse", {3.2096834465484654, 2.934277679902473, 2.6713855872653705}},
      {"val_loss", {1.8041231197562877, 1.0267537774099433, 0.7189426509943013}},
      {"val_main_loss", {1.2297975343444665, 0.4771757250339553, 0.19411213165414637}},
      {"val_main_mae", {0.9250461338239588, 0.5917300556893167, 0.38024248575303354}}};
  for (const auto& strategy : replicas_one_to_three()) {
    Model model(*strategy, two_heads());
    model.compile(two_losses());
    FitOptions options = three_epochs();
    options.validation_data = line_data(20);  // one label serves both outputs
    expect_near(model.fit(line_data(40), options).logs, expected, 1e-9);
    expect_near(as_values(model.evaluate(line_data(20), {.batch_size = 5})),
                {{"aux_loss", {1.3120762983503873}},
                 {"aux_mse", {2.6713855872653705}},
                 {"loss", {0.7189426509943014}},
                 {"main_loss", {0.19411213165414634}},
                 {"main_mae", {0.38024248575303354}}},
                1e-9);
  }
}

// 37 examples in batches of 10, which three replicas cannot divide: also the losses of outputs,
// which Keras averages over batches, are means over examples.
TEST(ModelOutputs, NReplicasEqualOne) {
  std::vector<Values> histories;
  std::vector<NamedTensors> outputs;
  for (const auto& strategy : replicas_one_to_three()) {
    Model model(*strategy, two_heads());
    CompileOptions options = two_losses();
    options.weighted_metrics = {};
    options.output_weighted_metrics = {{"main", {"mae"}}};
    model.compile(options);
    const auto [x, y] = points(37);
    FitOptions fit = three_epochs();
    fit.validation_data = line_data(11);
    histories.push_back(model.fit({x, y, weights(37)}, fit).logs);
    outputs.push_back(model.predict<NamedTensors>(x, {.batch_size = 10}));
    const double main = histories.back().at("main_loss")[2],
                 aux = histories.back().at("aux_loss")[2];
    EXPECT_NEAR(histories.back().at("loss")[2], main + 0.4 * aux, 1e-12);
  }
  for (std::size_t i = 1; i < histories.size(); ++i) {
    expect_near(histories[i], histories[0], 1e-12);
    for (const char* name : {"main", "aux"})
      EXPECT_LT((outputs[i][name] - outputs[0][name]).abs().max().item<double>(), 1e-12);
  }
}

TEST(ModelOutputs, WeightsByOutputAreThoseOfKeras) {
  const Values expected = {
      {"aux_loss", {2.2713615093180914, 2.122413951805476, 1.9758006771260317}},
      {"aux_mse", {3.4315287012267026, 2.9863825948839446, 2.58118502696416}},
      {"loss", {3.875570342563526, 1.6203841115263458, 1.03334497880441}},
      {"main_loss", {2.96702573883629, 0.7714185308041552, 0.24302470795399725}},
      {"main_mae", {1.1784590465632396, 0.6330886251424273, 0.36116112637789705}},
      {"main_weighted_mae", {1.1204970055583494, 0.5798139045000664, 0.3252421056658002}},
      {"val_aux_loss", {1.4056079681711389, 1.3138609995035673, 1.2221140308359952}},
      {"val_aux_mse", {3.0558558764224735, 2.650832063650534, 2.275578467290108}},
      {"val_loss", {1.4473905938741372, 0.8047131725821677, 0.5818229919204663}},
      {"val_main_loss", {0.8851474066056815, 0.27916877278074076, 0.09297737958606817}},
      {"val_main_mae", {0.7909474583675233, 0.44919113673358935, 0.2580662736654175}},
      {"val_main_weighted_mae", {0.7909474583675233, 0.44919113673358935, 0.2580662736654175}}};
  for (const auto& strategy : replicas_one_to_three()) {
    Model model(*strategy, two_heads());
    CompileOptions options = two_losses();
    options.output_metrics = {{"main", {"mae"}}};
    options.output_weighted_metrics = {{"main", {"mae"}}, {"aux", {"mse"}}};
    model.compile(options);
    const auto [x, y] = points(40);
    FitOptions fit = three_epochs();
    fit.validation_data = line_data(20);
    const ModelBatch data{
        .inputs = unnamed(x),
        .labels = NamedTensors({{"main", y}, {"aux", y}}),
        .sample_weights = NamedTensors({{"aux", other_weights(40)}, {"main", weights(40)}})};
    expect_near(model.fit(data, fit).logs, expected, 1e-9);
  }
}

TEST(ModelOutputs, SampleWeightsAreThoseOfKeras) {
  const Values expected = {
      {"loss", {3.1061010680634964, 0.7841818452482157, 0.23516206973554815}},
      {"mae", {1.219810035684836, 0.6425607302737483, 0.35846264711554615}},
      {"mse", {2.1087291654743003, 0.5323803353061282, 0.15965131339844554}},
      {"val_loss", {1.2777622463226004, 0.3776897134775735, 0.11795844820441626}},
      {"val_mae", {0.7166195903524517, 0.40201433913796836, 0.2245941429664572}},
      {"val_mse", {0.906799013519265, 0.2680378611776328, 0.08371244711281153}},
      {"val_weighted_mae", {0.7703572815827185, 0.41620417378372665, 0.22819510206883248}},
      {"weighted_mae", {1.1585998404022109, 0.5894765372324502, 0.32364452439160374}}};
  for (const auto& strategy : replicas_one_to_three()) {
    Model model(*strategy, line());
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1},
                   .loss = "mse",
                   .metrics = {"mae"},
                   .weighted_metrics = {"mae", "mse"}});
    const auto [x, y] = points(37);
    const auto [vx, vy] = points(11);
    FitOptions options = three_epochs();
    options.validation_data = LabeledData(vx, vy, weights(11));
    expect_near(model.fit({x, y, weights(37)}, options).logs, expected, 1e-9);
    expect_near(as_values(model.evaluate({vx, vy, other_weights(11)}, {.batch_size = 4})),
                {{"loss", {0.11445818001486549}},
                 {"mae", {0.2245941429664572}},
                 {"mse", {0.07406117530373649}},
                 {"weighted_mae", {0.21955660297785876}}},
                1e-9);
  }
}

TEST(ModelOutputs, TheLossIsDividedByTheNumberOfExamplesAndNotByTheSumOfWeights) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, line());
  model.compile({.loss = "mse", .weighted_metrics = {"mse"}});
  const at::Tensor labels = at::arange(1, 4, at::kDouble);
  const Logs logs = model.evaluate({at::zeros({3, 2}, at::kDouble), labels, labels});
  EXPECT_DOUBLE_EQ(logs.at("loss"), (1.0 + 8.0 + 27.0) / 3);
  EXPECT_DOUBLE_EQ(logs.at("mse"), (1.0 + 8.0 + 27.0) / 6);
}

TEST(ModelOutputs, ClassWeightsAreThoseOfKeras) {
  const Values expected = {
      {"accuracy", {0.5405405405405406, 0.6756756756756757, 0.6756756756756757}},
      {"loss", {1.0691190554960381, 0.6778752085606345, 0.5659118480500441}},
      {"val_accuracy", {0.8181818181818182, 0.8181818181818182, 0.8181818181818182}},
      {"val_loss", {0.7580952202545269, 0.673446848081518, 0.6364669087516954}},
      {"val_weighted_accuracy", {0.8181818181818182, 0.8181818181818182, 0.8181818181818182}},
      {"weighted_accuracy", {0.7608695652173914, 0.8695652173913043, 0.8695652173913043}}};
  const auto classes = [](std::int64_t count) {
    return (at::arange(count) * 2).remainder(5).remainder(3);
  };
  for (const auto& strategy : replicas_one_to_three()) {
    Model model(*strategy, [](const at::Tensor& x, variables::Mode) {
      return zero_dense(x, "classes", 3).softmax(1);
    });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.5},
                   .loss = "sparse_categorical_crossentropy",
                   .metrics = {"accuracy"},
                   .weighted_metrics = {"accuracy"}});
    FitOptions options = three_epochs();
    options.validation_data = LabeledData(points(11).x, classes(11));
    options.class_weight = {{0, 2.0}, {2, 0.25}};
    expect_near(model.fit({points(37).x, classes(37)}, options).logs, expected, 1e-9);
  }
}

TEST(ModelOutputs, EveryFormOfDataIsTheSame) {
  const auto [x, y] = points(12);
  const at::Tensor w = weights(12);
  using input::from_tensor_slices;
  const auto tuples =
      data::zip(from_tensor_slices(x), from_tensor_slices(y), from_tensor_slices(w)).batch(4);
  const NamedTensors all({{"point", x}, {"ignored", y}, {"height", y}, {"importance", w}});
  const auto named = data::range(3).map([all](std::int64_t batch) {
    return data::Structure<NamedTensors>::slice(all, 4 * batch, 4 * batch + 4);
  });
  const LabeledData::Columns columns{
      .inputs = {"point"}, .labels = {"height"}, .sample_weight = "importance"};
  const auto general = named.map([](const NamedTensors& batch) {
    return ModelBatch{.inputs = NamedTensors({{"point", batch["point"]}}),
                      .labels = NamedTensors({{"height", batch["height"]}}),
                      .sample_weights = unnamed(batch["importance"])};
  });
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  int number = 0;
  const auto history_of = [&](const LabeledData& data, std::optional<std::int64_t> batch_size) {
    Model model(strategy, line(), "m" + std::to_string(number++));
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
    FitOptions options = three_epochs();
    options.batch_size = batch_size;
    return model.fit(data, options).logs;
  };
  const Values expected = history_of({x, y, w}, 4);
  EXPECT_EQ(history_of(tuples, std::nullopt), expected);
  EXPECT_EQ(history_of({named, columns}, std::nullopt), expected);
  EXPECT_EQ(history_of(general, std::nullopt), expected);
  EXPECT_EQ(history_of(strategy.distribute(general), std::nullopt), expected);
  EXPECT_EQ(
      history_of(
          ModelBatch{.inputs = unnamed(x), .labels = unnamed(y), .sample_weights = unnamed(w)}, 4),
      expected);
  EXPECT_NE(history_of({x, y}, 4), expected) << "the weights count";
}

/// Two inputs and two outputs.
struct Pair : torch::nn::Module {
  Pair() {
    a = register_module("a", torch::nn::Linear(2, 1));
    b = register_module("b", torch::nn::Linear(3, 1));
    to(at::kDouble);
  }
  NamedTensors forward(const NamedTensors& x) {
    const at::Tensor first = a(x["two"]), second = b(x["three"]);
    return NamedTensors({{"sum", first + second}, {"difference", first - second}});
  }
  torch::nn::Linear a = nullptr, b = nullptr;
};

TEST(ModelOutputs, ANetworkOfNamedInputsIsTrainedAndPredicts) {
  const auto [x, y] = points(30);
  const NamedTensors inputs({{"two", x}, {"three", at::ones({30, 3}, at::kDouble)}});
  for (const auto& strategy : replicas_one_to_three()) {
    Model model = Model::from_module(*strategy, [] { return std::make_shared<Pair>(); });
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1},
                   .losses = {{"sum", "mse"}},
                   .output_metrics = {{"difference", {"mae"}}},
                   .labels = {{"sum", "height"}, {"difference", "height"}}});
    const ModelBatch data{.inputs = inputs, .labels = NamedTensors({{"height", y}, {"unused", y}})};
    FitOptions options = three_epochs();
    options.epochs = 20;
    options.validation_split = 0.2;
    const History history = model.fit(data, options);
    EXPECT_EQ(history.logs.size(), 4u) << "of one loss there are no parts";
    EXPECT_LT(history.at("loss").back(), 0.2 * history.at("loss").front());
    EXPECT_TRUE(history.logs.contains("val_difference_mae"));
    const NamedTensors outputs = model.predict<NamedTensors>(inputs, {.batch_size = 7});
    EXPECT_EQ(outputs.names(), (std::vector<std::string>{"sum", "difference"}));
    EXPECT_EQ(outputs["difference"].size(0), 30);
    EXPECT_NEAR((outputs["sum"].squeeze(1) - y).square().mean().item<double>(),
                model.evaluate(data).at("loss"), 1e-12);
  }
}

TEST(ModelOutputs, OnePredictedOutputMayBeATensor) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model one(
      strategy,
      [](const NamedTensors& x, variables::Mode) {
        return NamedTensors({{"only", zero_dense(x["a"], "one")}});
      },
      "one");
  one.build(NamedTensors({{"a", at::ones({1, 2}, at::kDouble)}}));
  EXPECT_EQ(one.variables().size(), 2u);
  const NamedTensors inputs({{"a", at::ones({3, 2}, at::kDouble)}});
  EXPECT_EQ(one.predict(inputs).sizes(), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(one.predict<NamedTensors>(inputs).names(), (std::vector<std::string>{"only"}));
  Model two(strategy, two_heads(), "two");
  const Error error = error_from([&] { two.predict(inputs); });
  EXPECT_NE(std::string(error.what()).find("2 outputs (main, aux)"), std::string::npos)
      << error.what();
}

TEST(ModelOutputs, StepsReportTheLossOfEachOutput) {
  std::vector<std::string> names;
  double sum = 0;
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, two_heads());
  model.compile(two_losses());
  FitOptions options = three_epochs();
  options.epochs = 1;
  options.callbacks = {LambdaCallback{.on_train_batch_end = [&](FitContext& fit) {
    names = fit.step_values().names();
    sum = fit.step_values().number("main_loss") + 0.4 * fit.step_values().number("aux_loss");
    EXPECT_NEAR(fit.step_values().number("loss"), sum, 1e-12);
  }}};
  model.fit(line_data(7), options);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "aux_loss", "main_loss"}));
  EXPECT_GT(sum, 0);
}

TEST(ModelOutputs, AnAuxiliaryHeadIsTrainedAsTheWeightedSumOfLosses) {
  const auto [x, y] = points(37);
  const LabeledData data(x, y);
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  /// Two layers, of which the first has a part in both outputs.
  const auto layers_of = [](const at::Tensor& input) {
    const at::Tensor shared = layers::v1::dense(
        input, 3, {.kernel_initializer = variables::constant_initializer(0.3), .name = "shared"});
    return std::pair(zero_dense(shared, "main"), zero_dense(shared, "aux"));
  };
  const auto squares = [](const at::Tensor& labels, const at::Tensor& outputs) {
    return (outputs - labels.unsqueeze(1)).square();
  };
  Model heads(
      strategy,
      [&](const at::Tensor& input, variables::Mode) {
        const auto [main, aux] = layers_of(input);
        return NamedTensors({{"main", main}, {"aux", aux}});
      },
      "heads");
  heads.compile({.optimizer = optim::Sgd{.learning_rate = 0.1},
                 .losses = {{"main", "mse"}, {"aux", "mse"}},
                 .loss_weights = {{"aux", 0.4}}});
  Model sum(
      strategy,
      [&](const at::Tensor& input, variables::Mode) {
        const auto [main, aux] = layers_of(input);
        return at::stack({main, aux}, 1).squeeze(2);
      },
      "sum");
  sum.compile({.optimizer = optim::Sgd{.learning_rate = 0.1},
               .loss = [&](const at::Tensor& labels, const at::Tensor& outputs) {
                 const at::Tensor both = squares(labels, outputs);
                 return both.select(1, 0) + 0.4 * both.select(1, 1);
               }});
  const History expected = sum.fit(data, three_epochs());
  const History history = heads.fit(data, three_epochs());
  for (std::size_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_NEAR(history.at("loss")[epoch], expected.at("loss")[epoch], 1e-12);
  for (std::size_t i = 0; i < heads.variables().size(); ++i)
    EXPECT_LT((heads.variables()[i].read() - sum.variables()[i].read()).abs().max().item<double>(),
              1e-12)
        << heads.variables()[i].name();
}

TEST(ModelOutputs, ClassWeightsAreTheSampleWeightsOfTheirExamples) {
  const at::Tensor x = points(37).x, classes = at::arange(37).remainder(3);
  const at::Tensor of_each = at::tensor({2.0, 1.0, 0.25}, at::kDouble).index_select(0, classes);
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  const auto history_of = [&](const std::string& name, const LabeledData& data,
                              const std::map<std::int64_t, double>& class_weight) {
    Model model(
        strategy,
        [](const at::Tensor& input, variables::Mode) { return zero_dense(input, "classes", 3); },
        name);
    const Loss loss("sparse_categorical_crossentropy", {.from_logits = true});
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.5},
                   .loss = loss,
                   .weighted_metrics = {"accuracy"}});
    FitOptions options = three_epochs();
    options.class_weight = class_weight;
    return model.fit(data, options).logs;
  };
  const Values weighted = history_of("samples", {x, classes, of_each}, {});
  EXPECT_EQ(history_of("classes", {x, classes}, {{0, 2.0}, {2, 0.25}}), weighted);
  EXPECT_NE(history_of("none", {x, classes}, {}), weighted);
}

TEST(ModelOutputs, LowPrecisionTrainsEveryOutputAndReportsFloat32) {
  const auto [x, y] = points(40);
  const LabeledData data(x.to(at::kFloat), y.to(at::kFloat), weights(40).to(at::kFloat));
  std::map<device::Precision, Values> histories;
  for (const auto precision :
       {device::Precision::kFull, device::Precision::kBf16, device::Precision::kFp16}) {
    distribute::MirroredStrategy strategy(distribute::cpus(2));
    strategy.set_precision(precision);
    Model model(strategy, two_heads());
    CompileOptions compiled = two_losses();
    if (precision == device::Precision::kFp16)
      compiled.optimizer_options.gradient_scaler = {.initial_scale = 1024.0};
    model.compile(compiled);
    histories[precision] = model.fit(data, three_epochs()).logs;
    EXPECT_EQ(model.global_step(), 12) << "no update was left out";
    const NamedTensors outputs = model.predict<NamedTensors>(x.to(at::kFloat));
    for (const at::Tensor& each : outputs.tensors()) EXPECT_EQ(each.scalar_type(), at::kFloat);
    for (const variables::Variable& each : model.variables())
      EXPECT_EQ(each.dtype(), at::kFloat) << each.name();
  }
  const Values& full = histories[device::Precision::kFull];
  for (const auto precision : {device::Precision::kBf16, device::Precision::kFp16}) {
    EXPECT_NE(histories[precision], full) << "the precision had no effect";
    expect_near(histories[precision], full, 0.05);
  }
}

TEST(ModelOutputs, WarnsOfLogitsByOutput) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  const auto warnings = [&](const std::string& name, double bias) {
    const CapturedLog log;
    Model model(
        strategy,
        [bias](const at::Tensor& x, variables::Mode) {
          return NamedTensors(
              {{"sigmoid", zero_dense(x, "sigmoid")}, {"logit", zero_dense(x, "logit") + bias}});
        },
        name);
    model.compile({.losses = {{"sigmoid", "binary_crossentropy"}, {"logit", "bce"}}});
    FitOptions options = three_epochs();
    options.epochs = 1;
    model.fit({at::ones({4, 2}, at::kDouble), at::ones({4}, at::kDouble)}, options);
    return std::ranges::count_if(log.lines(), [](const std::string& each) {
      return each.find("End the model") != std::string::npos;
    });
  };
  EXPECT_EQ(warnings("probabilities", 0.5), 0);
  EXPECT_EQ(warnings("logits", 2.0), 1) << "of one of the two outputs";
}

TEST(ModelOutputs, WhatDoesNotFitIsRefusedByName) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  int number = 0;
  const auto [x, y] = points(8);
  const LabeledData plain(x, y);
  const auto fit = [&](const CompileOptions& options, const LabeledData& data,
                       std::map<std::int64_t, double> class_weight = {}) {
    return [&strategy, &number, options, data, class_weight] {
      Model model(strategy, two_heads(), "model" + std::to_string(number++));
      model.compile(options);
      FitOptions one_epoch = {.epochs = 1, .verbose = Verbose::kSilent};
      one_epoch.class_weight = class_weight;
      model.fit(data, one_epoch);
    };
  };
  const auto changed = [](const std::function<void(CompileOptions&)>& change) {
    CompileOptions options = two_losses();
    change(options);
    return options;
  };
  const auto with_labels = [&](NamedTensors labels, NamedTensors sample_weights = {}) {
    return ModelBatch{.inputs = unnamed(x),
                      .labels = std::move(labels),
                      .sample_weights = std::move(sample_weights)};
  };
  struct Case {
    std::function<void()> call;
    std::string part;
  };
  const std::vector<Case> cases = {
      {fit({.loss = "mse"}, plain), "several outputs ('main', 'aux')"},
      {fit({.losses = {{"mian", "mse"}}}, plain), "no output 'mian'"},
      {fit(changed([](auto& o) {
             o.output_metrics = {{"other", {"mae"}}};
           }),
           plain),
       "no output 'other'"},
      {fit(changed([](auto& o) { o.metrics = {"mae"}; }), plain), "several outputs"},
      {fit(changed([](auto& o) { o.loss = "mse"; }), plain), "one of loss"},
      {fit(changed([](auto& o) { o.loss_weights["auxiliary"] = 1; }), plain),
       "'auxiliary', which losses does not have"},
      {fit(changed([](auto& o) { o.loss_weights["aux"] = INFINITY; }), plain), "must be finite"},
      {fit(changed([](auto& o) {
             o.output_metrics["main"] = {"mae", "mae"};
           }),
           plain),
       "the name 'main_mae'"},
      {fit(changed([](auto& o) {
             o.labels = {{"aux", "nothing"}};
           }),
           plain),
       "no label 'nothing' for output 'aux'"},
      {fit(two_losses(), with_labels(NamedTensors({{"main", y}, {"third", y}}))),
       "no label 'aux' for output 'aux'. Labels: 'main', 'third'"},
      {fit(two_losses(), with_labels(NamedTensors({{"main", y}}))),
       "no label 'aux' for output 'aux'. Labels: 'main'"},
      {fit(two_losses(),
           with_labels(unnamed(y), NamedTensors({{"main", weights(8)}, {"extra", weights(8)}}))),
       "sample weights 'extra' are of no output"},
      {fit(two_losses(), LabeledData(x, y, at::ones({8, 3}))),
       "sample weights of output 'aux' have shape [4, 3] and the values [4]"},
      {[&] { LabeledData(x, y, at::full({8}, -2.0)); }, "has the value -2"},
      {[&] { LabeledData(x, y, at::ones({7})); }, "has shape [7]"},
      {fit(changed([](auto& o) {
             o.losses = {{"main", [](const at::Tensor& labels, const at::Tensor& predictions) {
                            return (predictions.squeeze(1) - labels).square().mean();
                          }}};
             o.loss_weights = {};
           }),
           LabeledData(x, y, weights(8))),
       "output 'main' returns the mean of the batch"},
      {fit(two_losses(), LabeledData(x, y, weights(8)), {{0, 2.0}}),
       "class_weight is set, and the data has sample weights"},
      {fit(two_losses(), with_labels(NamedTensors({{"main", y}, {"aux", y}})), {{0, 2.0}}),
       "class_weight is for data with one label"},
      {fit(two_losses(), plain, {{0, -2.0}}), "class_weight of class 0 is -2"},
      {[&] {
         Model model(strategy, line(), "one");
         model.predict(NamedTensors({{"a", x}, {"b", x}}));
       },
       "The network takes one tensor, and the data has 2 inputs (a, b)"},
      {[&] {
         const auto batches = data::range(1).map([x = x](std::int64_t) {
           return NamedTensors({{"x", x}});
         });
         Model model(strategy, line(), "columns");
         model.compile({.loss = "mse"});
         model.fit({batches, {.inputs = {"x"}, .labels = {"y"}}}, {.verbose = Verbose::kSilent});
       },
       "There is no tensor \"y\""}};
  for (const auto& [call, part] : cases) {
    const Error error = error_from(call);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " is not in: " << error.what();
  }
}

/// A fit of 4 batches an epoch, with this session and these callbacks.
History fit_with_weights(const SessionOptions& session, std::vector<CallbackPtr> callbacks = {}) {
  const auto [x, y] = points(37);
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  Model model(strategy, two_heads());
  CompileOptions options = two_losses();
  options.output_weighted_metrics = {{"main", {"mae"}}};
  model.compile(options);
  FitOptions shuffled = three_epochs();
  shuffled.shuffle = true;
  shuffled.callbacks = std::move(callbacks);
  shuffled.session = session;
  return model.fit({x, y, weights(37)}, shuffled);
}

// The first process is stopped after step 6, or killed after step 7 with a checkpoint of step 6.
TEST(ModelOutputs, AFitWithWeightsAndSeveralLossesResumesExactly) {
  const History whole = fit_with_weights(quiet_session());
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "brigade_model_outputs";
  for (const bool is_killed : {false, true}) {
    std::filesystem::remove_all(folder);
    SessionOptions session = quiet_session();
    session.checkpoint_dir = folder;
    session.save_checkpoints = {.steps = is_killed ? 3 : 100};
    if (is_killed) {
      const LambdaCallback killing{.on_train_batch_end = [](FitContext& fit) {
        if (fit.state().global_step() == 7) throw std::runtime_error("killed");
      }};
      EXPECT_THROW(fit_with_weights(session, {killing}), std::runtime_error);
    } else {
      SessionOptions first = session;
      first.hooks = {StopAtStepHook{.num_steps = 6}};
      EXPECT_EQ(fit_with_weights(first).epochs.size(), 1u);
    }
    const History rest = fit_with_weights(session);
    ASSERT_EQ(rest.epochs, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(rest.logs.size(), 6u);
    for (const auto& [name, values] : rest.logs) {
      EXPECT_EQ(values[0], whole.at(name)[1]) << name;
      EXPECT_EQ(values[1], whole.at(name)[2]) << name;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace brigade::train
