// Replicas that outlive their server: what makes them alike, and how they are named.
#include "models_fixture.hpp"

#include <apps/serve/models/deployment.hpp>

#include <limits>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

TEST_CASE("replicas are alike by their type, settings, resources and the bytes of their file", "[serve]") {
  const auto mark = [](const std::string& file, const std::function<void(wire::ReplicaConfig&)>& change,
                       const std::string& type = "test/any", double gpus = 0.5) {
    wire::ReplicaConfig config;
    config.set_model("m");
    config.set_version("1");
    config.set_max_rows(8);
    change(config);
    gpuactors::Options resources;
    resources.gpus = gpus;
    return kind_mark(type, config, resources, std::as_bytes(std::span{file}));
  };
  const auto same = [](wire::ReplicaConfig&) {};
  const auto first = mark("file", same);
  CHECK(first.size() == 16);
  CHECK(first == mark("file", same));
  // Servers count versions for themselves, and have the file's bytes in other places.
  CHECK(first == mark("file", [](wire::ReplicaConfig& config) {
          config.set_version("7");
          config.mutable_file()->set_id(3);
        }));
  CHECK(first != mark("life", same));
  CHECK(first != mark("file", same, "test/other"));
  CHECK(first != mark("file", same, "test/any", 0.25));
  CHECK(first != mark("file", [](wire::ReplicaConfig& config) { config.set_max_rows(9); }));
  const auto ab = mark("file", [](wire::ReplicaConfig& config) { (*config.mutable_settings())["a"] = "bc"; });
  CHECK(ab != mark("file", [](wire::ReplicaConfig& config) { (*config.mutable_settings())["ab"] = "c"; }));
}

TEST_CASE("a name tells deployment, model, mark and number", "[serve]") {
  const LastingNames names{"prod", "digits", "0123456789abcdef"};
  CHECK(names.name(7) == "serve:prod/digits/0123456789abcdef/7");
  CHECK(names.id_of(names.name(7)) == 7);
  CHECK_FALSE(names.id_of("serve:prod/digits/fedcba9876543210/7").has_value());
  CHECK_FALSE(names.id_of("serve:prod/digits/0123456789abcdef/x").has_value());
  CHECK_FALSE(names.id_of("serve:prod/digits/0123456789abcdef/").has_value());
  CHECK(names.is_of_model("serve:prod/digits/fedcba9876543210/7"));
  CHECK(names.has_mark("serve:prod/digits/fedcba9876543210/7", "fedcba9876543210"));
  CHECK_FALSE(names.has_mark("serve:prod/digits/fedcba9876543210/7", names.mark));
  CHECK_FALSE(names.is_of_model("serve:prod/digits2/fedcba9876543210/7"));
  CHECK_FALSE(names.is_of_model("serve:prod2/digits/fedcba9876543210/7"));
  CHECK_FALSE(names.is_of_model("digits/1/7"));
  const std::string longest_model(gpuactors::limits::name_length / 2, 'm');
  const LastingNames longest{std::string(24, 'd'), longest_model, names.mark};
  must(check_deployment(longest.deployment));
  CHECK(longest.name(9'999'999'999).size() <= gpuactors::limits::name_length);
  for (const auto* wrong : {"", "a/b", "a b", "1234567890123456789012345"})
    CHECK(code_of(check_deployment(wrong)) == Errc::invalid_argument);
}
