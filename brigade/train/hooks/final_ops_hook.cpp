#include "brigade/train/hooks/final_ops_hook.h"

#include "brigade/base/error.h"
#include "brigade/train/session/session_context.h"

namespace brigade::train {

FinalOpsHook::FinalOpsHook(Function function) : function_(std::move(function)) {
  check_argument(static_cast<bool>(function_), "FinalOpsHook needs a function.");
}

void FinalOpsHook::end(SessionContext& context) {
  if (!context.has_failed()) values_ = function_(context);
}

}  // namespace brigade::train
