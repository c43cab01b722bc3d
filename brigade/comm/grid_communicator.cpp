#include "brigade/comm/grid_communicator.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"

namespace brigade::comm {

namespace {

class GridCommunicator final : public ProcessCommunicator {
 public:
  explicit GridCommunicator(GridGroups groups)
      : column_(std::move(groups.column)), row_(std::move(groups.row)) {
    progress_.lead({column_, &column_->progress()});
    progress_.lead({row_, &row_->progress()});
  }

  int rank() const override { return column_->rank() * row_->world_size() + row_->rank(); }
  int world_size() const override { return column_->world_size() * row_->world_size(); }
  Transport transport() const override { return column_->transport(); }
  Traffic traffic() const override {
    const Traffic in_column = column_->traffic();
    const Traffic in_row = row_->traffic();
    return {.collectives = in_column.collectives + in_row.collectives,
            .bytes_sent = in_column.bytes_sent + in_row.bytes_sent};
  }
  StepProgress& progress() override { return progress_; }

  at::Tensor make_buffer(std::int64_t numel, at::ScalarType dtype) override {
    return at::zeros({numel}, at::TensorOptions(dtype));
  }
  void all_reduce_subtrees(std::span<const at::Tensor> /*sets*/,
                           const ReductionBlocks& /*blocks*/) override {
    throw Error(ErrorCode::kUnimplemented,
                "A communicator of a grid adds no subtrees: add them in a column, or in a row.");
  }

 private:
  std::vector<at::Tensor> execute(const CollectiveCall& call) override {
    if (const auto problem = call.find_problem(world_size()))
      throw Error(ErrorCode::kInvalidArgument, *problem);
    switch (call.kind) {
      case Collective::kAllReduce:
        reduce(call);
        return {};
      case Collective::kBroadcast:
        column_->broadcast(call.tensors, call.root / row_->world_size())->wait();
        row_->broadcast(call.tensors, call.root % row_->world_size())->wait();
        return {};
      case Collective::kAllGather:
        return gather(call.tensors.front());
      case Collective::kBarrier:
      case Collective::kMakeBuffer:
        break;
    }
    column_->barrier();
    row_->barrier();
    return {};
  }

  std::vector<at::Tensor> gather(const at::Tensor& own) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& of_row : column_->all_gather(own)) {
      for (at::Tensor& each : row_->all_gather(of_row)) all.push_back(std::move(each));
    }
    return all;
  }

  void reduce(const CollectiveCall& call) {
    for (const at::Tensor& tensor : call.tensors)
      tensor.copy_(combine_by_tree(gather(tensor), call.op));
  }

  const std::shared_ptr<ProcessCommunicator> column_;
  const std::shared_ptr<ProcessCommunicator> row_;
  StepProgress progress_;
};

}  // namespace

std::unique_ptr<ProcessCommunicator> make_grid_communicator(GridGroups groups) {
  return std::make_unique<GridCommunicator>(std::move(groups));
}

}  // namespace brigade::comm
