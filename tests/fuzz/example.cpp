#include "brigade/data/formats/example.h"

#include "brigade/data/formats/example_parser.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const auto bytes = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const data::Example example = data::parse_example(bytes);
    // A parsed example is written, parsed and written again: both must be equal.
    const std::string written = data::serialize(example);
    fuzz::require(data::serialize(data::parse_example(written)) == written);
  });
  static const data::ExampleParser kParser({
      {"image", data::FixedLenFeature{.kind = data::FeatureKind::kBytes}},
      {"label", data::FixedLenFeature{.kind = data::FeatureKind::kInt64,
                                      .shape = {2},
                                      .default_value = data::Int64List{1, 2}}},
      {"weights", data::VarLenFeature{.kind = data::FeatureKind::kFloat}},
  });
  fuzz::accepts([&] {
    const data::ParsedExample example = kParser(bytes);
    fuzz::require(example.values<std::string>(0).size() == 1);
    fuzz::require(example.values<std::int64_t>(1).size() == 2);
  });
  return 0;
}
