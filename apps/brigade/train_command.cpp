#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/brigade/commands.h"
#include "apps/brigade/exit_code.h"
#include "apps/brigade/parameter_server.h"
#include "apps/brigade/train_flags.h"
#include "apps/brigade/training_run.h"

namespace brigade::command {
namespace {

constexpr const char* kTrainExamples = R"(Examples:
  brigade train --model-dir /tmp/run --epochs 2
      the MNIST CNN on Fashion-MNIST, one CPU
  brigade train --strategy mirrored --devices cpu:0,cpu:1 --batch-size 128 --epochs 5 --model-dir /tmp/run
      the same on two replicas, 256 examples a step
  brigade train --strategy towers --devices cpu:0,cpu:1 --controller cpu:0 --accumulate 4 --model-dir /tmp/run
      in-graph towers around a controller, four batches a step
  brigade train --model-dir /tmp/run --epochs 5 --save-every 100s,500steps --keep-last 3 --eval-every 200steps
      saved every 100 seconds and every 500 steps; the accuracy on the test split every 200 steps
  brigade train --model-dir /tmp/other --epochs 9 --resume /tmp/run/checkpoints/ckpt-500
      another run that starts from that checkpoint
  brigade train --model-dir /tmp/run --steps 100 --summaries-every 10steps --profile-steps 20:30
      the loss every 10 steps for TensorBoard, and a trace of steps 20 to 30 for ui.perfetto.dev
  TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}' \
      brigade train --strategy multi_worker_mirrored --key-file cluster.key --model-dir /shared/run
      this one of two workers; the same on b with index 1 (one machine: brigade launch --nproc 2 -- brigade train ...)
  brigade launch --ps 1 --workers 2 -- brigade train --strategy parameter_server --mode async --model-dir /tmp/run
      a parameter server and two workers on this machine, each updating the variables when it is ready
  brigade train --model resnet18 --dataset image_folder --data-dir /data/pets --image-size 64 --augment random_resized_crop,flip \
      --optimizer sgd --momentum 0.9 --learning-rate 0.1 --schedule cosine --warmup 100 --label-smoothing 0.1 --epochs 20 --model-dir /tmp/pets
      the images in /data/pets/train/CLASS and val/CLASS, with the usual augmentation and schedule
  brigade train --model resnet18 --dataset image_folder --data-dir /data/pets --init-from /tmp/pets --freeze "*conv*" --model-dir /tmp/tuned
      begins with the weights of another training, and trains some of the variables only
  brigade train --model mlp --dataset synthetic --steps 100 --optimizer sgd --learning-rate 0.1 --json
      a quick test without files

SIGINT (Ctrl-C), SIGTERM and SIGHUP end the training after the current step; everything is saved. A second
signal ends it immediately. The same command again resumes the training, also after a crash; with more steps
or epochs it also resumes a finished run. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 SIGINT, 75 SIGTERM or SIGHUP.)";

class TrainCommand final : public Command {
 public:
  explicit TrainCommand(CLI::App& parent)
      : Command(parent, "train", "Train a model and save its weights") {
    flags_.add_to(parser_);
    parser_.footer(kTrainExamples);
  }

  int run() override {
    flags_.strategy.check();
    flags_.strategy.warn_if_alone();
    if (flags_.strategy.role() != TaskRole::kServes)
      set_up([&] { flags_.fine_tuning.choose_original(flags_.model); });
    switch (flags_.strategy.role()) {
      case TaskRole::kServes:
        return serve();
      case TaskRole::kEvaluates:
        return run_evaluator(flags_);
      case TaskRole::kTrains:
        return run_training_task(
            flags_,
            {.log = std::cerr, .write = [this](const Json& report, const std::string& text) {
               flags_.output.print(report, text);
             }});
    }
    return kFailed;
  }

 private:
  int serve() const {
    flags_.check();
    const io::Path model_dir = flags_.checkpoints.model_dir;
    return run_parameter_server(
        {.cluster = set_up([&] { return flags_.strategy.cluster.resolve(); }),
         .folder = model_dir.empty() ? io::Path() : model_dir / "ps",
         .key = set_up([&] { return flags_.strategy.cluster.key(); }),
         .earlier = flags_.checkpoints.overwrite ? EarlierState::kRemove : EarlierState::kRestore,
         .output = flags_.output});
  }

  TrainFlags flags_;
};

}  // namespace

std::unique_ptr<Command> make_train_command(CLI::App& parent) {
  return std::make_unique<TrainCommand>(parent);
}

}  // namespace brigade::command
