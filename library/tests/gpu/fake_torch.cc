// A libtorch_cpu.so that has a reducer of buckets and nothing else.
#pragma GCC visibility push(default)

namespace c10d {

class Reducer {
 public:
  struct Bucket {
    void (*work)(void*);
    void* with;
  };
  [[gnu::noinline]] void all_reduce_bucket(Bucket& bucket);
};

void Reducer::all_reduce_bucket(Bucket& bucket) {
  bucket.work(bucket.with);
  asm volatile("");  // no jump into what it calls: it stays on the stack
}

}  // namespace c10d

extern "C" void busbw_test_reduce(void (*work)(void*), void* with) {
  c10d::Reducer::Bucket bucket{work, with};
  c10d::Reducer().all_reduce_bucket(bucket);
  asm volatile("");
}
