// Programs that contradict their interfaces. refused.py compiles this file: each fault must be refused with its text.
#include <gpuactors/actor/registry.hpp>

#include <google/protobuf/wrappers.pb.h>

#include <vector>

using namespace gpuactors;
using google::protobuf::DoubleValue;
using google::protobuf::Empty;
using google::protobuf::StringValue;

constexpr Task<DoubleValue, Empty> task{"task"};
constexpr StreamMethod<Empty, DoubleValue> items{"items"};
constexpr Method<Empty, DoubleValue> item{"item"};

class Giver : public Actor {
public:
  using Actor::Actor;
  void give(const Empty&, ReplyStream<DoubleValue>& out);
  void give_other(const Empty&, ReplyStream<StringValue>& out);
  DoubleValue give_one(const Empty&);
  void give_beside(const Empty&, ReplyStream<DoubleValue>& out) const;
  std::vector<DoubleValue> give_all(const BatchOf<Empty>&);
  DoubleValue give_none(const BatchOf<Empty>&);
};

void all() {
  // refused: the function takes another message than its name says
  define_task(task, [](TaskContext&, const StringValue&) {});
  auto giver = define_actor<Giver>("giver");
  giver.method(items, &Giver::give);
  // refused: the function answers with another message than its name says
  giver.method(items, &Giver::give_other);
  // refused: its name says that it streams: it takes a ReplyStream<Item>& at the end
  giver.method(items, &Giver::give_one);
  giver.method(item, &Giver::give_one);
  // refused: the function streams: its name is a StreamTask or a StreamMethod
  giver.method(item, &Giver::give);
  // refused: no matching function for call to
  define_task(item, [](TaskContext&, const Empty&) { return DoubleValue{}; });
  // refused: a concurrent method is a const member function: R name(const In&) const
  giver.concurrent_method("one", &Giver::give_one);
  // refused: a concurrent method does not stream: others would wait
  giver.concurrent_method("beside", &Giver::give_beside);
  // refused: a method of a batch is R name(const gpuactors::BatchOf<Message>&), a member of the actor's class
  giver.batch_method("one", &Giver::give_one, {});
  // refused: a method of a batch returns one answer for each call
  giver.batch_method("none", &Giver::give_none, {});
  // refused: a method of a batch does not stream: its name is a Method
  giver.batch_method(items, &Giver::give_all, {});
  giver.batch_method(item, &Giver::give_all, {});
  // refused: a_name_is_made_of_letters_digits_and_these_four
  constexpr Method<Empty, Empty> misnamed{"with spaces"};
  giver.method(misnamed, [](Giver&, const Empty&) {});
}
