#include "brigade/device/numerics.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

class NumericsTest : public ::testing::Test {
 protected:
  ~NumericsTest() override {  // the settings are the process's
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(false, false);
    context.setDeterministicCuDNN(false);
    context.setBenchmarkCuDNN(false);
    context.setAllowTF32CuBLAS(false);
    context.setAllowTF32CuDNN(true);
  }
};

TEST_F(NumericsTest, AreSetInLibtorch) {
  const at::Context& context = at::globalContext();
  for (const Numerics numerics : {Numerics::kFast, Numerics::kReproducible, Numerics::kFast}) {
    use_numerics(numerics);
    const bool fast = numerics == Numerics::kFast;
    EXPECT_EQ(context.deterministicAlgorithms(), !fast);
    EXPECT_EQ(context.deterministicCuDNN(), !fast);
    EXPECT_EQ(context.benchmarkCuDNN(), fast);
    EXPECT_EQ(context.allowTF32CuBLAS(), fast);
    EXPECT_EQ(context.allowTF32CuDNN(), fast);
    EXPECT_EQ(current_numerics_settings(), settings_of(numerics));
  }
}

TEST_F(NumericsTest, ReproducibleOnesFixTheWorkspaceOfCublasUnlessTheUserHas) {
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  use_numerics(Numerics::kReproducible);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  use_numerics(Numerics::kFast);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  use_numerics(Numerics::kReproducible);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

TEST(Numerics, HaveNames) {
  for (const std::string& name : numerics_names()) EXPECT_EQ(to_string(numerics_from(name)), name);
  EXPECT_THROW(numerics_from("exact"), Error);
  EXPECT_EQ(describe(settings_of(Numerics::kFast)), "any kernels, TF32, cuDNN benchmark");
}

}  // namespace
}  // namespace brigade::device
