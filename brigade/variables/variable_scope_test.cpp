#include "brigade/variables/variable_scope.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/variables/graph.h"

/// The expected names and answers were read off TensorFlow 2.21 (tf.compat.v1).
namespace brigade::variables {
namespace {

using base::testing::code_of;
using Names = std::vector<std::string>;
using NameScopes = VariableScopeOptions::NameScopes;

/// Opens and closes a scope without a name; returns its name and name scope.
std::string open_default(const std::string& default_name) {
  const auto scope = variable_scope(std::nullopt, {.default_name = default_name});
  return scope->name() + " " + scope->original_name_scope();
}

class VariableScopes : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

TEST_F(VariableScopes, PrefixNamesAndOpenNameScopes) {
  EXPECT_EQ(get_variable_scope().name(), "");
  const auto a = variable_scope("a");
  EXPECT_EQ(a->name(), "a");
  const auto b = variable_scope("b");
  EXPECT_EQ(b->name(), "a/b");
  EXPECT_EQ(b->original_name_scope(), "a/b/");
  EXPECT_EQ(b->full_name("v"), "a/b/v");
  EXPECT_EQ(get_variable_scope().name(), "a/b");
  EXPECT_EQ(graph_.unique_name("x"), "a/b/x");
}

TEST_F(VariableScopes, OpenedAgainHaveTheSamePrefixAndAnotherNameScope) {
  Names seen;
  const auto note = [&](const OpenVariableScope& scope) {
    seen.push_back(scope->name() + " " + graph_.unique_name("x") + " " +
                   scope->original_name_scope());
  };
  VariableScope foo;
  {
    const auto scope = variable_scope("foo");
    foo = scope.scope();
    note(scope);
  }
  note(variable_scope("foo"));
  note(variable_scope(foo));
  {
    const auto bar = variable_scope("bar");
    note(variable_scope(foo));
    note(variable_scope(foo, {.name_scopes = NameScopes::kLeave}));
    note(variable_scope("in", {.name_scopes = NameScopes::kLeave}));
  }
  note(variable_scope(foo, {.name_scopes = NameScopes::kLeave}));
  EXPECT_EQ(seen,
            (Names{"foo foo/x foo/", "foo foo_1/x foo_1/", "foo foo_2/x foo/", "foo bar/foo/x foo/",
                   "foo bar/x foo/", "bar/in bar/x_1 bar/", "foo x foo/"}));
}

TEST_F(VariableScopes, DefaultNamesAreCountedPerOpeningOfTheEnclosingScope) {
  Names seen;
  const auto open_twice = [&] {
    seen.push_back(open_default("c"));
    seen.push_back(open_default("c"));
  };
  open_twice();
  seen.push_back(open_default("c"));
  {
    const auto p = variable_scope("p");
    open_twice();
  }
  VariableScope captured;
  {
    const auto p = variable_scope("p");
    captured = p.scope();
    open_twice();
  }
  {
    const auto p = variable_scope(captured);
    open_twice();
  }
  {
    const auto c = variable_scope("c");
    seen.push_back(c->name() + " " + c->original_name_scope());
  }
  seen.push_back(open_default("c"));
  EXPECT_EQ(seen, (Names{"c c/", "c_1 c_1/", "c_2 c_2/", "p/c p/c/", "p/c_1 p/c_1/", "p/c p_1/c/",
                         "p/c_1 p_1/c_1/", "p/c p_2/c/", "p/c_1 p_2/c_1/", "c c_3/", "c_3 c_4/"}));
}

TEST_F(VariableScopes, AnExplicitNameTakesPrecedence) {
  const auto scope = variable_scope(std::optional<std::string>("given"), {.default_name = "other"});
  EXPECT_EQ(scope->name(), "given");
}

TEST_F(VariableScopes, TowersUnderTheCapturedRootFindTheFirstOnesDefaultNames) {
  Names first;
  Names second;
  for (Names* seen : {&first, &second}) {
    const auto tower_names = name_scope("tower");
    const auto root = variable_scope(get_variable_scope(),
                                     {.reuse = seen == &second ? Reuse::kYes : Reuse::kInherit});
    EXPECT_EQ(get_variable_scope().reuse(), seen == &second ? Reuse::kYes : Reuse::kNo);
    for (int layer = 0; layer < 2; ++layer) {
      const auto scope = variable_scope(std::nullopt, {.default_name = "conv"});
      seen->push_back(scope->name());
    }
  }
  EXPECT_EQ(first, (Names{"conv", "conv_1"}));
  EXPECT_EQ(second, first);
}

TEST_F(VariableScopes, InheritReuseByName) {
  const auto outer = variable_scope("a", {.reuse = Reuse::kYes});
  EXPECT_EQ(variable_scope("b")->reuse(), Reuse::kYes);
  EXPECT_EQ(variable_scope("b", {.reuse = Reuse::kNo})->reuse(), Reuse::kYes);
  EXPECT_EQ(variable_scope("b", {.reuse = Reuse::kAuto})->reuse(), Reuse::kAuto);
  const auto automatic = variable_scope("c", {.reuse = Reuse::kAuto});
  EXPECT_EQ(variable_scope("d")->reuse(), Reuse::kAuto);
  EXPECT_EQ(variable_scope("d", {.reuse = Reuse::kYes})->reuse(), Reuse::kYes);
}

TEST_F(VariableScopes, CapturedScopesKeepTheirOwnReuse) {
  VariableScope makes;
  VariableScope reuses;
  {
    const auto scope = variable_scope("makes");
    makes = scope.scope();
  }
  {
    const auto scope = variable_scope("reuses");
    scope->reuse_variables();
    reuses = scope.scope();
  }
  EXPECT_EQ(variable_scope(reuses)->reuse(), Reuse::kYes);
  EXPECT_EQ(variable_scope(reuses, {.reuse = Reuse::kNo})->reuse(), Reuse::kYes);
  const auto outer = variable_scope("x", {.reuse = Reuse::kYes});
  EXPECT_EQ(variable_scope(makes)->reuse(), Reuse::kNo);
  EXPECT_EQ(variable_scope(makes, {.reuse = Reuse::kNo})->reuse(), Reuse::kNo);
  EXPECT_EQ(variable_scope(makes, {.reuse = Reuse::kYes})->reuse(), Reuse::kYes);
  EXPECT_EQ(makes.reuse(), Reuse::kNo);
}

TEST_F(VariableScopes, ReuseVariablesHoldsInTheOpenScopeAndThoseOpenedInsideLater) {
  {
    const auto scope = variable_scope("s");
    const VariableScope copy = scope.scope();
    {
      const auto before = variable_scope("before");
      copy.reuse_variables();
      EXPECT_EQ(get_variable_scope().reuse(), Reuse::kNo);
    }
    EXPECT_EQ(get_variable_scope().reuse(), Reuse::kYes);
    EXPECT_EQ(variable_scope("later")->reuse(), Reuse::kYes);
  }
  EXPECT_EQ(variable_scope("s")->reuse(), Reuse::kNo);
}

TEST_F(VariableScopes, ReuseVariablesAtTheRootHoldsForAll) {
  get_variable_scope().reuse_variables();
  EXPECT_EQ(get_variable_scope().reuse(), Reuse::kYes);
  EXPECT_EQ(variable_scope("s")->reuse(), Reuse::kYes);
}

TEST_F(VariableScopes, PassDefaultsToInnerScopesUntilTheySetThem) {
  const Regularizer regularizer = [](const at::Tensor& value) { return value; };
  const auto outer = variable_scope("a", {.initializer = ones_initializer(),
                                          .regularizer = regularizer,
                                          .caching_device = "cpu:0",
                                          .dtype = at::kDouble});
  const auto inner = variable_scope("b", {.initializer = zeros_initializer()});
  const VariableScopeOptions& defaults = inner->defaults();
  EXPECT_EQ(defaults.initializer.name(), zeros_initializer().name());
  EXPECT_TRUE(defaults.regularizer);
  EXPECT_EQ(defaults.caching_device, "cpu:0");
  EXPECT_EQ(defaults.dtype, at::kDouble);
  EXPECT_EQ(outer->defaults().initializer.name(), ones_initializer().name());
  const auto elsewhere = variable_scope(VariableScope());
  EXPECT_FALSE(elsewhere->defaults().initializer);
}

TEST_F(VariableScopes, RefuseAMissingName) {
  EXPECT_EQ(code_of([] { const auto scope = variable_scope(std::nullopt, {}); }),
            ErrorCode::kInvalidArgument);
  for (const Reuse reuse : {Reuse::kYes, Reuse::kAuto}) {
    EXPECT_EQ(code_of([&] {
                const auto scope =
                    variable_scope(std::nullopt, {.reuse = reuse, .default_name = "c"});
              }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(open_default("c"), "c c/");
}

TEST(VariableScope, NeedsAGraph) {
  EXPECT_EQ(code_of([] { const auto scope = variable_scope("a"); }),
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code_of([] { get_variable_scope(); }), ErrorCode::kFailedPrecondition);
}

TEST(VariableScope, EachGraphHasItsOwn) {
  Graph first;
  Graph second;
  const auto one = first.as_default();
  const auto a = variable_scope("a");
  const auto two = second.as_default();
  EXPECT_EQ(get_variable_scope().name(), "");
  EXPECT_EQ(open_default("c"), "c c/");
}

}  // namespace
}  // namespace brigade::variables
