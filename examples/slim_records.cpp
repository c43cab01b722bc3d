// Input of which each process reads its own part: a folder of TFRecord files as TensorFlow Datasets
// prepares it, where every file is read by one process. A Slim model trains on it.
//
//   example_slim_records --data_dir=/tmp/fashion_mnist/3.0.1 --prepare=4  # writes such a folder
//   brigade launch --nproc 2 -- example_slim_records --data_dir=/tmp/fashion_mnist/3.0.1
//
// Further flags: --examples (how many there are, or are written), --source (of those written).
#include <brigade/brigade.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <span>
#include <string>

namespace bg = brigade;

namespace {

constexpr int kBatchSize = 32;  // of each replica

/// As TensorFlow Datasets stores an example: the image as a PNG file, the label as a number.
std::string record_of(const bg::LabeledExample& example) {
  const at::Tensor pixels = bg::convert_image_dtype(example.features, at::kByte).contiguous();
  const std::span<const std::uint8_t> bytes(pixels.const_data_ptr<std::uint8_t>(), 28 * 28);
  bg::Example record;
  record.features["image"] = bg::BytesList{bg::encode_png({bytes, {28, 28}, 1})};
  record.features["label"] = bg::Int64List{example.label};
  return bg::serialize(record);
}

void prepare(const bg::Flags& flags, int shards) {
  const auto examples =
      bg::fashion_mnist(flags.at("source")).take(std::stoll(flags.at("examples")));
  std::filesystem::create_directories(flags.at("data_dir"));
  for (int shard = 0; shard < shards; ++shard) {
    char name[64];
    std::snprintf(name, sizeof(name), "fashion_mnist-train.tfrecord-%05d-of-%05d", shard, shards);
    bg::write_records(examples.shard(shards, shard).map(record_of),
                      flags.at("data_dir") + "/" + name);
  }
}

/// One epoch; counts in `records_read` what this process reads.
bg::Dataset<bg::LabeledBatch> create_dataset(const std::string& data_dir, int global_batch_size,
                                             std::atomic<std::int64_t>& records_read) {
  const bg::ExampleParser parse({{"image", bg::FixedLenFeature{bg::FeatureKind::kBytes}},
                                 {"label", bg::FixedLenFeature{bg::FeatureKind::kInt64}}});
  const auto to_example = [parse, &records_read](const std::string& record) {
    ++records_read;
    const bg::ParsedExample parsed = parse(record);
    const at::Tensor pixels = bg::decode_to_tensor(parsed.value<std::string>(0));
    return bg::LabeledExample{bg::convert_image_dtype(pixels, at::kFloat),
                              parsed.value<std::int64_t>(1)};
  };
  return bg::records(bg::match_files(data_dir + "/*-train.tfrecord-*"))
      .shuffle(1000)
      .map(to_example, {.parallelism = bg::kAutotune})
      .batch(global_batch_size)
      .prefetch(bg::kAutotune);
}

void train(bg::Strategy& strategy, const bg::Flags& flags) {
  std::atomic<std::int64_t> records_read = 0;
  const auto dataset = create_dataset(flags.at("data_dir"),
                                      kBatchSize * strategy.num_replicas_in_sync(), records_read);
  const auto scope = strategy.scope();
  const auto model =
      strategy.create([](const at::Tensor& images) { return bg::models::slim_net(images); },
                      at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const bg::metrics::Mean train_loss("loss");

  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor loss = bg::losses::sparse_categorical_crossentropy(
        model(local.features), local.labels, {.reduction = bg::losses::Reduction::kNone});
    adam.minimize(loss);
    train_loss.update_state(loss);
  };
  // kFile: each file is read by one process. (kAuto would choose the same here.)
  const auto batches = strategy.distribute(dataset, {.auto_shard = bg::AutoShardPolicy::kFile});
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    train_loss.reset_state();
    records_read = 0;
    for (const auto& batch : batches) strategy.run(train_step, batch);
    last = train_loss.result();
    if (epoch == 0) first = last;

    const std::int64_t examples = std::stoll(flags.at("examples"));
    std::cout << "Worker " << strategy.worker_index() << " of " << strategy.num_workers()
              << ", epoch " << epoch + 1 << ": read " << records_read << " of " << examples
              << " records, loss " << last << std::endl;
    bg::check_state(train_loss.count() == static_cast<double>(examples),
                    "The workers together must train on each example once.");
    bg::check_state(records_read == examples / strategy.num_workers(),
                    "Each worker must read its part of the files only.");
  }
  bg::check_state(last < 0.8 * first, "The loss did not fall.");
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const bg::Flags flags = bg::parse_flags(argc, argv,
                                            {{"data_dir", "fashion_mnist/3.0.1"},
                                             {"prepare", "0"},
                                             {"examples", "60000"},
                                             {"source", bg::kFashionMnistDirectory}});
    if (const int shards = std::stoi(flags.at("prepare")); shards > 0) {
      prepare(flags, shards);
    } else {
      bg::MultiWorkerMirroredStrategy strategy;  // as the launcher, or TF_CONFIG, describes it
      train(strategy, flags);
    }
  });
}
