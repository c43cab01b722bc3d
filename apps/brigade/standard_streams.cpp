#include "apps/brigade/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "apps/brigade/exit_code.h"
#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::command {

void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // Opened the wrong way round; the lowest free number is given.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int finish_standard_output(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code != kDone) return code;
  const std::string reason = errno == 0 ? "" : base::str_cat(": ", std::strerror(errno));
  return report_error(
      Error(ErrorCode::kUnavailable,
            base::str_cat("standard output cannot be written", reason, "; the output is lost")));
}

}  // namespace brigade::command
