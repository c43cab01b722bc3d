#include "brigade/runs/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "brigade/base/testing/error_code.h"

namespace brigade::runs {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(ReportPage, HasAScriptAndAStyleThatItsPolicyNames) {
  const std::string page = report_page(std::vector{RunRecord{.name = "first"}}, {});
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("style-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg"));  // a name, no address
}

TEST(ReportPage, LeavesNamesNoWayOutOfItsData) {
  const std::string hostile = "</script><script>alert(1)</script><!-- {{script}} \"'&";
  const RunRecord run{.name = hostile,
                      .configuration = {{hostile, hostile}},
                      .training = {{.tag = hostile, .points = {{.step = 1}}}},
                      .missing = {hostile}};
  const std::string page = report_page(std::vector{run}, {});
  const std::string plain = report_page(std::vector{RunRecord{}}, {});
  EXPECT_EQ(count(page, "<script"), count(plain, "<script"));
  EXPECT_EQ(count(page, "</script"), count(plain, "</script"));
  EXPECT_EQ(count(page, "<!--"), 0u);
  const auto data = nlohmann::json::parse(report_data(std::vector{run}, {}));
  EXPECT_EQ(data["runs"][0]["name"], hostile);
  EXPECT_EQ(data["runs"][0]["training"][0]["tag"], hostile);
}

TEST(ReportPage, ThinsCurvesAndHasNullForWhatIsNotFinite) {
  Curve curve{.tag = "loss"};
  for (int step = 0; step < 500; ++step) curve.points.push_back({.step = step, .value = 0.1});
  curve.points[250].value = std::numeric_limits<double>::infinity();
  const RunRecord run{.training = {curve}};
  const auto data =
      nlohmann::json::parse(report_data(std::vector{run}, {.time = 7, .most_points = 50}));
  const auto& found = data["runs"][0]["training"][0];
  EXPECT_LE(found["steps"].size(), 50u);
  EXPECT_EQ(found["values"].size(), found["steps"].size());
  EXPECT_THAT(found["values"], testing::Contains(nlohmann::json()));
  EXPECT_EQ(found["values"][0], 0.1);  // not 0.10000000149
  EXPECT_EQ(data["time"], 7);
}

TEST(ReportPage, NeedsARun) {
  EXPECT_EQ(base::testing::code_of([] { report_page({}, {}); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::runs
