#include "modules.hpp"

#include <ATen/Parallel.h>
#include <torch/script.h>

#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

namespace torchtest {

namespace {

using torch::jit::Module;

at::Tensor counting(std::vector<std::int64_t> shape, double step) {
  std::int64_t count = 1;
  for (const auto size : shape)
    count *= size;
  return (at::arange(count, at::kFloat) * step).reshape(shape);
}

Module with(const std::string& forward, const std::map<std::string, at::Tensor>& parameters = {}) {
  Module module{"Tested"};
  for (const auto& [name, value] : parameters)
    module.register_parameter(name, value, false);
  module.define(forward);
  return module;
}

Module linear(double step) {
  return with("def forward(self, x):\n  return torch.matmul(x, self.w) + self.b\n",
              {{"w", counting({4, 2}, step)}, {"b", counting({2}, 1)}});
}

const std::map<std::string, std::function<Module()>>& makers() {
  static const std::map<std::string, std::function<Module()>> all{
      {"linear", [] { return linear(1); }},
      {"doubled", [] { return linear(2); }},
      {"pair", [] { return with("def forward(self, x, scale):\n  return x.sum(-1), x * scale\n"); }},
      {"table",
       [] {
         return with("def forward(self, ids):\n  return torch.embedding(self.rows, ids)\n",
                     {{"rows", counting({10, 2}, 1)}});
       }},
      {"picky",
       [] {
         return with("def forward(self, x):\n  assert bool(x.max() <= 100), \"a reading is above 100\"\n"
                     "  return x + 1\n");
       }},
      {"hungry", [] { return with("def forward(self, x):\n  return x + torch.zeros([int(x.max())]).sum()\n"); }},
      {"large",
       [] {
         return with("def forward(self, x):\n  return x + self.w.sum()\n", {{"w", at::zeros({1 << 20})}});
       }},
      {"changer", [] { return with("def forward(self, x):\n  x.add_(1)\n  return x\n"); }},
      {"keeper",
       [] {
         auto module = Module{"Tested"};
         module.register_attribute("last", c10::TensorType::get(), at::zeros({1}));
         module.define("def forward(self, x):\n  before = self.last\n  self.last = x\n  return x + before.sum()\n");
         return module;
       }},
      {"frozen",
       [] {
         auto module = linear(1);
         module.eval();
         return torch::jit::freeze(module);
       }},
      {"picture",
       [] {
         return with("def forward(self, x):\n  return torch.relu(torch.conv2d(x, self.w, None, [1, 1], [1, 1]))\n",
                     {{"w", counting({2, 3, 3, 3}, 1) - 20}});
       }},
      {"turned", [] { return with("def forward(self, x):\n  return x.transpose(1, 2)\n"); }},
      {"mixing", [] { return with("def forward(self, x):\n  return x.mean(0, True)\n"); }},
      {"writer",
       [] {
         return with("def forward(self, x):\n  self.total.add_(x.sum())\n  return x + self.total\n",
                     {{"total", at::zeros({1})}});
       }},
      {"sum", [] { return with("def forward(self, x):\n  return x.sum()\n"); }},
      {"scalar", [] { return with("def forward(self, x):\n  return int(x.sum())\n"); }},
      {"counted", [] { return with("def forward(self, x, n: int):\n  return x * n\n"); }},
      {"flags", [] { return with("def forward(self, x):\n  return x, x.logical_not()\n"); }},
      {"whole", [] { return with("def forward(self, x):\n  return x.long()\n"); }},
      {"growing",
       [] {
         return with("def forward(self, x):\n  return x.expand([int(x.max()) + 1, 1]) if bool(x.max() > 0) else x\n");
       }},
      {"busy", [] { return with("def forward(self, x):\n  return x + torch.ones([4194304]).exp().min() * 0\n"); }},
  };
  return all;
}

} // namespace

std::vector<std::string> module_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : makers())
    names.push_back(name);
  return names;
}

std::string module_file(const std::string& name) {
  const auto maker = makers().find(name);
  if (maker == makers().end())
    throw std::invalid_argument("there is no module " + name);
  std::ostringstream out;
  maker->second().save(out);
  return out.str();
}

std::vector<float> run_directly(const std::string& name, const std::vector<float>& numbers,
                                const std::vector<std::int64_t>& shape) {
  const at::NoGradGuard no_gradients;
  std::istringstream in{module_file(name)};
  auto module = torch::jit::load(in);
  auto input = numbers;
  const auto answer = module.forward({at::from_blob(input.data(), shape)});
  const auto tensor = (answer.isTuple() ? answer.toTuple()->elements()[0].toTensor() : answer.toTensor()).contiguous();
  return {tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel()};
}

std::shared_ptr<void> make_tensor(std::size_t bytes) {
  return std::make_shared<at::Tensor>(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
}

void* data_of(const std::shared_ptr<void>& tensor) {
  return static_cast<at::Tensor*>(tensor.get())->data_ptr();
}

int threads_here() {
  return at::get_num_threads();
}

} // namespace torchtest
