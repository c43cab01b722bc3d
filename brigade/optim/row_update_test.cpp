#include "brigade/optim/row_update.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"

namespace brigade::optim {
namespace {

/// A table with its slots.
struct UpdatedTable {
  UpdatedTable(UpdateRulePtr the_rule, const at::Tensor& initial)
      : rule(std::move(the_rule)), parameter(initial.clone()) {
    for (const SlotSpec& slot : rule->slots())
      slots.push_back(at::full_like(parameter, slot.initial));
  }
  UpdatedTable copy() const {
    UpdatedTable result(rule, parameter);
    for (std::size_t i = 0; i < slots.size(); ++i) result.slots[i].copy_(slots[i]);
    result.updates = updates;
    return result;
  }
  void update_rows(const at::Tensor& indices, const at::Tensor& gradients) {
    apply_rows(*rule,
               {.parameter = parameter,
                .slots = slots,
                .indices = indices,
                .gradients = gradients,
                .step = ++updates},
               rule->defaults());
  }
  /// The same, with zeros for the other rows' gradients.
  void update_all(const at::Tensor& indices, const at::Tensor& gradients) {
    const at::Tensor dense = at::zeros_like(parameter);
    dense.index_copy_(0, indices, gradients);
    UpdateArguments arguments{
        .parameters = {parameter}, .gradients = {dense}, .slots = {}, .step = ++updates};
    for (const at::Tensor& slot : slots) arguments.slots.push_back({slot});
    rule->apply(arguments, rule->defaults());
  }
  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all = {parameter};
    all.insert(all.end(), slots.begin(), slots.end());
    return all;
  }

  UpdateRulePtr rule;
  at::Tensor parameter;
  std::vector<at::Tensor> slots;
  std::int64_t updates = 0;
};

/// Tables whose last elements are in an incomplete vector in several ways, or in none.
std::vector<at::Tensor> tables_of_all_kinds() {
  std::vector<at::Tensor> tables;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{10, 16}, {10, 7}, {9, 3, 2}, {10, 1}, {10}, {10, 33}})
      tables.push_back(at::rand(sizes, dtype).sub(0.5));
  return tables;
}

/// Rows at the end, elsewhere, one alone, all.
std::vector<at::Tensor> rows_of_all_kinds(std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < count; ++row) all.push_back(row);
  std::vector<at::Tensor> kinds;
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{count - 1}, {0, 2, count - 2, count - 1}, {1, 3}, {0}, all})
    kinds.push_back(at::tensor(rows, at::kLong));
  return kinds;
}

at::Tensor random_rows(const at::Tensor& table, const at::Tensor& indices) {
  std::vector<std::int64_t> sizes = table.sizes().vec();
  sizes.front() = indices.numel();
  return at::rand(sizes, table.options()).sub(0.5);
}

TEST(ApplyRows, GivesTheBitsOfTheDenseUpdateIfZerosChangeNothing) {
  for (const UpdateRulePtr& rule : {Sgd{.learning_rate = 0.3}.rule(), Adagrad{}.rule()}) {
    ASSERT_EQ(rule->row_updates(), RowUpdates::kExact);
    for (const at::Tensor& initial : tables_of_all_kinds()) {
      UpdatedTable sparse(rule, initial), dense(rule, initial);
      for (int round = 0; round < 3; ++round)
        for (const at::Tensor& indices : rows_of_all_kinds(initial.size(0))) {
          const at::Tensor gradients = random_rows(initial, indices);
          sparse.update_rows(indices, gradients);
          dense.update_all(indices, gradients);
        }
      for (std::size_t i = 0; i < sparse.tensors().size(); ++i)
        EXPECT_TRUE(at::equal(sparse.tensors()[i], dense.tensors()[i]))
            << rule->name() << " " << initial.sizes() << " tensor " << i;
      EXPECT_FALSE(at::equal(sparse.parameter, initial));
    }
  }
}

TEST(ApplyRows, LazyRulesUpdateTheRowsOfTheGradientAlone) {
  for (const UpdateRulePtr& rule :
       {Adam{}.rule(), AdamW{}.rule(), RmsProp{}.rule(),
        RmsProp{.momentum = 0.9, .weight_decay = 0.1, .centered = true}.rule(),
        Sgd{.momentum = 0.9}.rule(),
        Sgd{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}.rule()}) {
    ASSERT_EQ(rule->row_updates(), RowUpdates::kLazy);
    for (const at::Tensor& initial : tables_of_all_kinds()) {
      UpdatedTable sparse(rule, initial);
      for (int round = 0; round < 2; ++round)
        for (const at::Tensor& indices : rows_of_all_kinds(initial.size(0))) {
          const at::Tensor gradients = random_rows(initial, indices);
          UpdatedTable expected = sparse.copy();
          expected.update_all(indices, gradients);
          const UpdatedTable before = sparse.copy();
          sparse.update_rows(indices, gradients);
          for (std::size_t i = 0; i < sparse.tensors().size(); ++i) {
            const at::Tensor wanted = before.tensors()[i].index_copy(
                0, indices, expected.tensors()[i].index_select(0, indices));
            EXPECT_TRUE(at::equal(sparse.tensors()[i], wanted))
                << rule->name() << " " << initial.sizes() << " tensor " << i;
          }
        }
    }
  }
}

TEST(ApplyRows, OnlyRowsOfTheGradientDecay) {
  UpdatedTable table(Sgd{.learning_rate = 1, .weight_decay = 0.5}.rule(), at::ones({3, 16}));
  table.update_rows(at::tensor({1}, at::kLong), at::zeros({1, 16}));
  EXPECT_EQ(table.parameter[0][0].item<float>(), 1);
  EXPECT_EQ(table.parameter[1][0].item<float>(), 0.5);
}

TEST(ApplyRows, NoRowsChangeNothing) {
  UpdatedTable table(Adam{}.rule(), at::rand({3, 2}));
  const UpdatedTable before = table.copy();
  table.update_rows(at::empty({0}, at::kLong), at::empty({0, 2}));
  for (std::size_t i = 0; i < table.tensors().size(); ++i)
    EXPECT_TRUE(at::equal(table.tensors()[i], before.tensors()[i]));
}

TEST(ApplyRows, RefusesRulesThatNeedWholeVariables) {
  UpdatedTable table(Lars{}.rule(), at::ones({3, 2}));
  try {
    table.update_rows(at::tensor({1}, at::kLong), at::ones({1, 2}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
    EXPECT_NE(std::string(error.what()).find("lars"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(table.parameter.equal(at::ones({3, 2})));
}

}  // namespace
}  // namespace brigade::optim
