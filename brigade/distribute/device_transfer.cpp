#include "brigade/distribute/device_transfer.h"

#include "brigade/base/strings.h"

namespace brigade::distribute {

void check_on_device(const at::Tensor& tensor, c10::Device device) {
  if (tensor.device() == device) return;
  throw Error(
      ErrorCode::kFailedPrecondition,
      base::str_cat("A batch of the replica on ", device.str(), " is on ", tensor.device().str(),
                    ": with DatasetPlacement::kOnReplica a dataset must make its batches on "
                    "the device that InputContext::torch_device names."));
}

}  // namespace brigade::distribute
