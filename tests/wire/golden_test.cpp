// What goes over the wire is a contract: type ids and field numbers are only ever appended. When one of these fails,
// nodes of two versions could not talk to each other: add a field or a message instead of changing one, and reserve the
// number of a field that nobody uses any more.
#include "system.hpp"

#include <gpuactors/v1/actor.pb.h>
#include <gpuactors/v1/collective.pb.h>
#include <gpuactors/v1/serving.pb.h>
#include <gpuactors/v1/source.pb.h>
#include <gpuactors/v1/tensor.pb.h>
#include <gpuactors/wire/protobuf.hpp>

#include <support/catch.hpp>

#include <fmt/format.h>

#include <fstream>
#include <set>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

std::string hex(const google::protobuf::Message& message) {
  std::string result;
  for (const auto byte : deterministic_bytes(message))
    result += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return result;
}

template <class T>
int id() {
  return static_cast<int>(caf::type_id<T>::value) - static_cast<int>(caf::first_custom_type_id);
}

/// "enum.VALUE number", for all values.
void collect(const google::protobuf::EnumDescriptor& type, std::set<std::string>& fields) {
  for (int i = 0; i < type.value_count(); ++i)
    fields.insert(fmt::format("{}.{} {}", type.full_name(), type.value(i)->name(), type.value(i)->number()));
}

/// "message.field number type", for all fields of a message and of those inside it, and "message.reserved number" for
/// the numbers of fields that are gone: nothing may use them again.
void collect(const google::protobuf::Descriptor& message, std::set<std::string>& fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    const std::string type{field.message_type() != nullptr ? field.message_type()->full_name() : field.type_name()};
    fields.insert(
        fmt::format("{} {} {}{}", field.full_name(), field.number(), field.is_repeated() ? "repeated " : "", type));
  }
  for (int i = 0; i < message.reserved_range_count(); ++i)
    for (auto number = message.reserved_range(i)->start; number < message.reserved_range(i)->end; ++number)
      fields.insert(fmt::format("{}.reserved {}", message.full_name(), number));
  for (int i = 0; i < message.nested_type_count(); ++i)
    collect(*message.nested_type(i), fields);
  for (int i = 0; i < message.enum_type_count(); ++i)
    collect(*message.enum_type(i), fields);
}

} // namespace

TEST_CASE("the type ids of messages stay what they were", "[wire]") {
  CHECK(id<Payload>() == 0);
  CHECK(id<Call>() == 1);
  CHECK(id<StreamItem>() == 2);
  CHECK(id<v1::RegisterNode>() == 3);
  CHECK(id<v1::Done>() == 4);
  CHECK(id<v1::AcquireLease>() == 5);
  CHECK(id<v1::Granted>() == 6);
  CHECK(id<v1::CancelAcquire>() == 7);
  CHECK(id<v1::ReleaseLease>() == 8);
  CHECK(id<v1::ReclaimLease>() == 9);
  CHECK(id<v1::SpawnActor>() == 10);
  CHECK(id<v1::ActorInfo>() == 11);
  CHECK(id<v1::FindActor>() == 12);
  CHECK(id<v1::KillActor>() == 13);
  CHECK(id<v1::GetState>() == 14);
  CHECK(id<v1::ClusterState>() == 15);
  CHECK(id<v1::LeaseEnded>() == 16);
  CHECK(id<v1::Tick>() == 17);
  CHECK(id<v1::StartRunner>() == 18);
  CHECK(id<v1::StartActor>() == 19);
  CHECK(id<v1::Started>() == 20);
  CHECK(id<v1::EndLease>() == 21);
  CHECK(id<v1::CancelCall>() == 22);
  CHECK(id<v1::StreamCredit>() == 23);
  CHECK(id<v1::SubmitGroup>() == 24);
  CHECK(id<v1::GroupInfo>() == 25);
  CHECK(id<v1::ReleaseGroup>() == 26);
  CHECK(id<v1::DrainNode>() == 27);
  CHECK(id<v1::LeaseStarted>() == 28);
  CHECK(id<v1::LeaseStuck>() == 29);
  CHECK(id<v1::Hello>() == 30);
  CHECK(id<v1::FindHolder>() == 31);
  CHECK(id<v1::WorkerHello>() == 32);
  CHECK(id<v1::WorkerExited>() == 33);
  CHECK(id<v1::PeerDown>() == 34);
  CHECK(id<v1::LinkChanged>() == 35);
  CHECK(id<v1::GetTypes>() == 36);
  CHECK(id<v1::TypeCatalog>() == 37);
  CHECK(id<v1::ActorSaved>() == 38);
  CHECK(id<v1::HolderUsage>() == 39);
  CHECK(id<v1::ReadLog>() == 40);
  CHECK(id<v1::LogLines>() == 41);
  CHECK(id<v1::Withdraw>() == 42);
  CHECK(id<v1::HeldAhead>() == 43);
  CHECK(id<v1::DeviceFault>() == 44);
  CHECK(id<v1::DeviceUse>() == 45);
  CHECK(id<v1::Goodbye>() == 46);
  CHECK(id<v1::SetQuota>() == 47);
  CHECK(id<v1::NodePrograms>() == 48);
  CHECK(id<v1::FollowState>() == 49);
  CHECK(id<v1::StateChanges>() == 50);
  CHECK(id<v1::TakenOver>() == 51);
  CHECK(id<v1::EndProcess>() == 52);
}

TEST_CASE("control messages keep their bytes", "[wire]") {
  v1::ResourceRequest request;
  request.set_name("r");
  request.set_gpu_units(5000);
  request.set_memory_bytes(1);
  request.set_cpu_units(2);
  request.set_accelerator_type("H200");
  (*request.mutable_resource_units())["neuron_cores"] = 10000;
  request.set_node("n");
  (*request.mutable_labels())["zone"] = "a";
  request.set_priority(3);
  request.set_spread(true);
  request.set_queue_timeout_ms(4);
  request.set_wait_for_nodes(true);
  request.set_parent_lease(5);
  request.set_group(6);
  request.set_bundle(7);
  CHECK(hex(request)
        == "0a0172108827180120022a044832303032110a0c6e6575726f6e5f636f72657310904e3a016e42090a047a6f6e65120161480350015"
           "804600170057806800107");

  v1::ResourceRequest wish;
  wish.set_node_soft(true);
  auto& zone = (*wish.mutable_label_conditions())["zone"];
  zone.set_op(v1::LabelCondition::NOT_IN);
  zone.add_values("a");
  CHECK(hex(wish) == "8a010d0a047a6f6e6512050801120161900101");

  v1::Lease lease;
  lease.set_id(1);
  lease.set_epoch(2);
  lease.set_node("n");
  auto* device = lease.add_devices();
  device->set_index(3);
  device->set_share_units(5000);
  device->set_memory_bytes(6);
  lease.set_cpu_units(7);
  lease.set_parent(8);
  lease.set_name("l");
  CHECK(hex(lease) == "080110021a016e2207080310882718062807380842016c");

  v1::Lease units;
  (*units.mutable_units())["neuron_cores"].add_ids(1);
  CHECK(hex(units) == "4a130a0c6e6575726f6e5f636f72657312030a0101");

  v1::TensorRef tensor;
  tensor.set_id(1);
  tensor.add_shape(2);
  CHECK(hex(tensor) == "1201021801");
}

TEST_CASE("a call keeps its bytes", "[wire]") {
  System system;
  v1::Tick tick;
  tick.set_id(5);
  Call call;
  call.method = "m";
  call.payload = Payload::of(tick);
  call.id = CallId{6};
  caf_version::Bytes bytes;
  REQUIRE(caf_version::encode(system.get(), call, bytes));
  std::string text;
  for (const auto byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  CHECK(text == "016d116770756163746f72732e76312e5469636b020805ffffffffffffffff000000000000000600ffffffffffffffff");
}

TEST_CASE("the fields of control messages are those of tests/wire/fields.txt, which only grows", "[wire]") {
  std::set<std::string> fields;
  for (const auto* file : {v1::ResourceRequest::descriptor()->file(), v1::ActorHandle::descriptor()->file(),
                           v1::TensorRef::descriptor()->file(), v1::SourceTask::descriptor()->file(),
                           v1::ReplicaConfig::descriptor()->file(), v1::CollectiveCall::descriptor()->file()}) {
    for (int i = 0; i < file->message_type_count(); ++i)
      collect(*file->message_type(i), fields);
    for (int i = 0; i < file->enum_type_count(); ++i)
      collect(*file->enum_type(i), fields);
  }
  std::set<std::string> known;
  std::ifstream list{FIELDS};
  REQUIRE(list.is_open());
  for (std::string line; std::getline(list, line);)
    known.insert(line);
  for (const auto& field : known) {
    INFO("changed or removed: " << field);
    CHECK(fields.count(field) == 1);
  }
  for (const auto& field : fields) {
    INFO("new, to be added to tests/wire/fields.txt: " << field);
    CHECK(known.count(field) == 1);
  }
}
