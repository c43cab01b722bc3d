#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "brigade/ps/client/early_push.h"
#include "brigade/ps/client/worker_variables.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

/// Throws kInvalidArgument, naming the variable, unless `gradients` has an entry for each variable,
/// and those that are defined fit their variables (`ParameterClient::push`). The forms of
/// `variables` are known.
void check_pushable(const WorkerVariables& variables, std::span<const at::Tensor> gradients);

/// A gradient, or values of its rows, as they travel: contiguous, and rounded to `push_dtype` where
/// a server takes that (`may_push`).
at::Tensor to_push(const at::Tensor& values, std::optional<at::ScalarType> push_dtype);

/// [server]: a push with the gradients of its variables; every server gets one, so that their
/// numbers agree.
std::vector<Push> divide_gradients(const WorkerVariables& variables,
                                   std::span<const at::Tensor> gradients, int servers,
                                   std::optional<at::ScalarType> push_dtype);
/// The same pushes, in the order of `early`, which begins them, and with what it has sent.
std::vector<Push> divide_gradients(const WorkerVariables& variables,
                                   std::span<const at::Tensor> gradients, int servers,
                                   std::optional<at::ScalarType> push_dtype,
                                   const EarlyPush& early);
/// The same before the gradients are known: each is a tensor of its shape and dtype, whose elements
/// mean nothing.
std::vector<Push> announce_gradients(const WorkerVariables& variables, const EarlyPush& early,
                                     int servers, std::optional<at::ScalarType> push_dtype);

}  // namespace brigade::ps
