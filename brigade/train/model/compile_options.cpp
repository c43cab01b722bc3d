#include "brigade/train/model/compile_options.h"

#include "brigade/base/unknown_name.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"

namespace brigade::train {

OptimizerChoice::OptimizerChoice(const std::string& name) {
  if (name == "adagrad" || name == "Adagrad") {
    rule_ = optim::Adagrad{.learning_rate = 1e-3, .initial_accumulator_value = 0.1, .epsilon = 1e-7}
                .rule();
  } else if (name == "adam" || name == "Adam") {
    rule_ = optim::Adam{.epsilon = 1e-7}.rule();
  } else if (name == "adamw" || name == "AdamW") {
    rule_ = optim::AdamW{.epsilon = 1e-7, .weight_decay = 4e-3}.rule();
  } else if (name == "rmsprop" || name == "RMSprop") {
    rule_ = optim::RmsProp{.epsilon = 1e-7, .initial_mean_square = 0}.rule();
  } else if (name == "sgd" || name == "SGD") {
    rule_ = optim::Sgd{.learning_rate = 1e-2}.rule();
  } else {
    throw base::unknown_name("optimizer", name, "Optimizers", optimizer_names());
  }
}

std::vector<std::string> optimizer_names() {
  return {"adagrad", "adam", "adamw", "rmsprop", "sgd"};
}

}  // namespace brigade::train
