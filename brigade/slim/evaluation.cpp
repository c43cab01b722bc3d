#include "brigade/slim/evaluation.h"

#include "brigade/base/error.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/session/training_state.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::slim::evaluation {

namespace {

std::vector<variables::Variable> variables_of(distribute::Strategy& strategy,
                                              const EvalOptions& options) {
  const auto scope = strategy.scope();
  std::vector<variables::Variable> found =
      options.variables_to_restore ? *options.variables_to_restore : variables::global_variables();
  check_argument(!found.empty(),
                 "There is nothing to restore: the strategy has no variable that was created by "
                 "name. Call the model once before the evaluation.");
  return found;
}

train::Evaluation evaluation_of(const EvalOptions& options) {
  return {.begin = options.initial_op,
          .step = options.eval_op,
          .metrics = options.metrics,
          .final_values = options.final_op};
}

train::EvaluationOptions train_options(const EvalOptions& options, const io::Path& logdir) {
  train::EvaluationOptions result{.restore = options.restore,
                                  .hooks = options.hooks,
                                  .summary_dir = logdir,
                                  .cancel = options.cancel,
                                  .environment = options.environment};
  result.hooks.push_back(train::StopAfterNEvalsHook{.num_evals = options.num_evals});
  return result;
}

}  // namespace

EvaluationReport evaluate_once(distribute::Strategy& strategy, const io::Path& checkpoint_path,
                               const io::Path& logdir, const EvalOptions& options) {
  train::TrainingState state(strategy);
  state.add_variables(variables_of(strategy, options));
  return train::evaluate_once(state, checkpoint_path, evaluation_of(options),
                              train_options(options, logdir));
}

std::optional<EvaluationReport> evaluation_loop(distribute::Strategy& strategy,
                                                const io::Path& checkpoint_dir,
                                                const io::Path& logdir,
                                                const EvalLoopOptions& options) {
  train::TrainingState state(strategy);
  state.add_variables(variables_of(strategy, options.evaluation));
  return train::evaluation_loop(state, checkpoint_dir, evaluation_of(options.evaluation),
                                {.each = train_options(options.evaluation, logdir),
                                 .interval = options.eval_interval_secs,
                                 .timeout = options.timeout,
                                 .timeout_fn = options.timeout_fn,
                                 .poll = options.seconds_to_sleep,
                                 .max_number_of_evaluations = options.max_number_of_evaluations});
}

}  // namespace brigade::slim::evaluation
