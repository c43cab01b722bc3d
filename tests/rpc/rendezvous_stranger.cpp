// A program that is no member of a cluster and still makes calls to its rendezvous, for
// strangers_test.py: rpc_stranger ADDRESS. A line for each call: its kind, the member's number that
// it claims, and what came of it.
#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/store_calls.h"

namespace {

using std::chrono::milliseconds;

void attempt(const std::string& what, const brigade::rpc::Credential& claimed,
             const std::function<void()>& call) {
  std::string outcome = "done";
  try {
    call();
  } catch (const brigade::Error& error) {
    outcome = brigade::to_string(error.code());
  }
  std::cout << what << ' ' << claimed.id << ' ' << outcome << std::endl;
}

}  // namespace

int main(int, char** arguments) {
  const auto calls = brigade::rpc::make_store_calls(
      brigade::rpc::make_channel(arguments[1], std::nullopt), {}, milliseconds(5000));
  for (const brigade::rpc::MemberId id : {1, 2, 3}) {
    for (const std::string& token : {std::string(), std::string(32, 'x')}) {
      const brigade::rpc::Credential claimed{id, token};
      attempt("set", claimed, [&] { calls->set(claimed, "what nobody sets", "diverted"); });
      attempt("add", claimed, [&] { calls->add(claimed, "what nobody sets", 1); });
      attempt("get", claimed, [&] { calls->get(claimed, "what nobody sets", milliseconds(1)); });
      attempt("barrier", claimed, [&] { calls->barrier(claimed, "end", milliseconds(1)); });
    }
  }
}
