#include "brigade/variables/colocation.h"

#include "brigade/base/strings.h"

namespace brigade::variables {

device::DeviceScope colocate_with(const Variable& variable) {
  const c10::Device home = variable.component(0).device();
  if (home.is_cpu()) return device::with_device("cpu:0");
  return device::with_device(base::str_cat("gpu:", static_cast<int>(home.index())));
}

}  // namespace brigade::variables
