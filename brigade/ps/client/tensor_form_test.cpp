#include "brigade/ps/client/tensor_form.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace brigade::ps {
namespace {

TEST(TensorForm, HasTheBytesOfItsTensorAndOfARow) {
  const TensorForm form = form_of(at::zeros({4, 3}, at::kDouble));
  EXPECT_EQ(form, (TensorForm{.sizes = {4, 3}, .dtype = at::kDouble}));
  EXPECT_EQ(bytes_of(form), 96u);
  EXPECT_EQ(row_bytes_of(form), 24u);
  EXPECT_EQ(text_of(form), "Double[4, 3]");
}

TEST(TensorForm, AScalarAndAnEmptyTableHaveNoRows) {
  const TensorForm scalar = form_of(at::zeros({}, at::kBFloat16));
  EXPECT_EQ(bytes_of(scalar), 2u);
  EXPECT_EQ(row_bytes_of(scalar), 0u);
  const TensorForm empty = form_of(at::zeros({0, 3}));
  EXPECT_EQ(bytes_of(empty), 0u);
  EXPECT_EQ(row_bytes_of(empty), 0u);
}

}  // namespace
}  // namespace brigade::ps
