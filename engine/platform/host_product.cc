// The product itself: float32, rows of the right matrix stay in the caches.
#include "engine/platform/host_product.h"

#include <utility>

#include "engine/platform/affinity.h"
#include "engine/platform/product_thread.h"

namespace busbw {
namespace {

class HostProduct final : public Product {
 public:
  HostProduct(const ProductShape& shape, std::vector<int> cpus)
      : shape_(shape),
        left_(size(shape.rows, shape.inner), 0.5F),
        right_(size(shape.inner, shape.columns), 0.25F),
        out_(size(shape.rows, shape.columns)),
        thread_(
            [cpus = std::move(cpus)] {
              if (!cpus.empty()) bind_this_thread(cpus);
            },
            [this] { multiply(); }, [] {}) {}

  void start(int count) override { thread_.start(count); }
  Seconds finish() override { return thread_.finish(); }

 private:
  static std::size_t size(int one, int other) {
    return static_cast<std::size_t>(one) * static_cast<std::size_t>(other);
  }

  void multiply() {
    const auto columns = static_cast<std::size_t>(shape_.columns), inner = static_cast<std::size_t>(shape_.inner);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape_.rows); ++row) {
      float* __restrict out = &out_[row * columns];
      for (std::size_t column = 0; column < columns; ++column) out[column] = 0;
      for (std::size_t i = 0; i < inner; ++i) {
        const float factor = left_[row * inner + i];
        const float* __restrict right = &right_[i * columns];
        for (std::size_t column = 0; column < columns; ++column) out[column] += factor * right[column];
      }
    }
  }

  const ProductShape shape_;
  std::vector<float> left_, right_, out_;
  ProductThread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Product> make_host_product(const ProductShape& shape, std::vector<int> cpus) {
  return std::make_unique<HostProduct>(shape, std::move(cpus));
}

}  // namespace busbw
