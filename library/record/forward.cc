// The functions of the NCCL API that the recorder passes on unseen: all that record no call and make no communicator.
#include "library/common/nccl/forward.h"

// clang-format finds no rest in these lists.
// clang-format off
BUSBW_FORWARDED_FUNCTIONS(BUSBW_FORWARD)
BUSBW_FORWARD(ncclCommWindowRegister)
BUSBW_FORWARD(ncclCommWindowDeregister)
BUSBW_FORWARD(mscclLoadAlgo)
BUSBW_FORWARD(mscclUnloadAlgo)
// clang-format on
