//! D4: after a warm-up, waking, waiting, spawning and moving bytes allocate nothing.

use weir_containers::Buffer;
use weir_counting::{CountingAllocator, allocations};
use weir_sched::{
    Class, Descriptor, ReceiveResult, Tick, WorkKind, current, now, simulate, spawn, wait, wake, yield_now,
};
use weir_sys::socket;

static KIND: WorkKind = WorkKind::new("test");

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

async fn echo(descriptor: Descriptor) {
    descriptor.set_owner(current());
    loop {
        let mut buffer = Buffer::take().expect("no limit is set");
        match descriptor.receive(&mut buffer).expect("the pair lives") {
            ReceiveResult::Bytes(_) => {
                descriptor.send_buffer(&mut buffer, false).expect("the pair lives");
            }
            ReceiveResult::Blocked => {
                drop(buffer);
                wait(now().after(60_000)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn exchange(descriptor: &Descriptor) {
    descriptor.send(&[0; 100], false).expect("the pair lives");
    while descriptor.receive_into(&mut [0; 4096]).expect("the pair lives") == ReceiveResult::Blocked {
        wait(now().after(30_000)).await;
    }
    let main = current();
    spawn(&KIND, Class::Urgent, async move { wake(main) });
    wait(Tick::NEVER).await;
    yield_now().await;
}

#[test]
fn a_warmed_up_worker_does_not_allocate() {
    let counted = simulate::run(1, async {
        let (near, far) = socket::stream_pair().expect("a pair");
        let (near, far) = (Descriptor::register(near).expect("registers"), Descriptor::register(far));
        near.set_owner(current());
        spawn(&KIND, Class::Normal, echo(far.expect("registers")));
        for _ in 0..10 {
            exchange(&near).await;
        }
        let before = allocations();
        for _ in 0..1000 {
            exchange(&near).await;
        }
        allocations() - before
    });
    assert_eq!(counted, Ok(Some(0)));
}
