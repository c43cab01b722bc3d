#pragma once

namespace brigade::command {

/// Opens placeholders for closed standard streams, so that no file opened later gets their
/// descriptors and the output written to them. Writing to a placeholder still fails. Call it first.
void reserve_standard_streams();

/// Flushes standard output. Returns `code`; or, if `code` is 0 but the output could not be written
/// (disk full, output closed), 1 with a line on standard error.
int finish_standard_output(int code);

}  // namespace brigade::command
