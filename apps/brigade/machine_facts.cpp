#include "apps/brigade/machine_facts.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "brigade/base/strings.h"
#include "brigade/device/device.h"
#include "brigade/machine/process_memory.h"
#include "brigade/tuning/tuning_report.h"

namespace brigade::command {

Json machine_facts() {
  utsname system{};
  ::uname(&system);
  const device::Hardware hardware = device::discover_hardware();
  return {{"host", system.nodename},
          {"system", base::str_cat(system.sysname, " ", system.release, ", ", system.machine)},
          {"processor", hardware.topology.processor},
          {"usable_cores", hardware.topology.usable_cores()},
          {"memory_bytes", machine::machine_memory()},
          {"gpu_cards", hardware.gpu_cards},
          {"brigade", BRIGADE_VERSION},
          {"libtorch", TORCH_VERSION},
          {"tuning", tuning::report().describe()}};
}

}  // namespace brigade::command
