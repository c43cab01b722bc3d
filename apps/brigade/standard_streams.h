#pragma once

namespace brigade::command {

/// Takes the places of standard streams that are closed, so that no file opened later gets their
/// numbers and with them what is written to them: writing there still fails. To be called first.
void hold_standard_streams();

/// Ends standard output: `code`, or 1 with a line on standard error where all went well but what
/// was said could not be written (disk full, output closed).
int finish_standard_output(int code);

}  // namespace brigade::command
