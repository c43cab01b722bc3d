#pragma once

#include "brigade/distribute/replicated.h"
#include "brigade/distribute/strategy.h"
#include "brigade/models/classifier.h"
#include "brigade/models/registry.h"

namespace brigade::command {

/// A model that is written as a function, built by `strategy` for images of `example`'s shape, as
/// the classifier that the commands train.
distribute::Replicated<models::Classifier> build_classifier(distribute::Strategy& strategy,
                                                            const models::ModelFunction& function,
                                                            const at::Tensor& example);

}  // namespace brigade::command
