#include "brigade/base/text_piece.h"

#include <charconv>
#include <sstream>

namespace brigade::base {

template <class Number>
void append_number(std::string& text, Number value) {
  char digits[64];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

template void append_number(std::string&, signed char);
template void append_number(std::string&, unsigned char);
template void append_number(std::string&, short);
template void append_number(std::string&, unsigned short);
template void append_number(std::string&, int);
template void append_number(std::string&, unsigned);
template void append_number(std::string&, long);
template void append_number(std::string&, unsigned long);
template void append_number(std::string&, long long);
template void append_number(std::string&, unsigned long long);
template void append_number(std::string&, float);
template void append_number(std::string&, double);
template void append_number(std::string&, long double);

void append_streamed(std::string& text, const void* object,
                     void (*write)(std::ostream& stream, const void* object)) {
  std::ostringstream stream;
  write(stream, object);
  text += stream.str();
}

}  // namespace brigade::base
