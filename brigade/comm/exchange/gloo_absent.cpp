// Replaces gloo.cpp if the program is configured without Gloo's headers.
#include "brigade/base/error.h"
#include "brigade/comm/process_link.h"

namespace brigade::comm {

bool gloo_is_built_in() {
  return false;
}

std::unique_ptr<ProcessLink> make_gloo_link(std::shared_ptr<cluster::Membership>,
                                            const std::string&, const CommunicationOptions&) {
  throw Error(ErrorCode::kUnimplemented,
              "Gloo is not built into this program: configure where Debian's libgloo-dev is "
              "installed, or keep all processes on one host (transport 'shared_memory').");
}

}  // namespace brigade::comm
