use super::*;

type Log = Rc<RefCell<Vec<String>>>;

struct Logged {
    log: Log,
    keep: bool,
    fail_delete: Rc<std::cell::Cell<i32>>,
}

impl Callbacks for Logged {
    fn copy(&self, object: usize, _: i32, value: usize) -> Result<Option<usize>, i32> {
        self.log.borrow_mut().push(format!("copy {object} {value}"));
        if value == 99 {
            return Err(777);
        }
        Ok(self.keep.then_some(value + 100))
    }

    fn delete(&self, object: usize, _: i32, value: usize) -> Result<(), i32> {
        self.log
            .borrow_mut()
            .push(format!("delete {object} {value}"));
        match self.fail_delete.get() {
            0 => Ok(()),
            code => Err(code),
        }
    }
}

struct Fixture {
    log: Log,
    fail: Rc<std::cell::Cell<i32>>,
    keyvals: Keyvals,
}

impl Fixture {
    fn new() -> Self {
        Self {
            log: Log::default(),
            fail: Rc::default(),
            keyvals: Keyvals::default(),
        }
    }

    fn keyval(&self, keep: bool) -> Rc<Keyval> {
        let cb = Logged {
            log: self.log.clone(),
            keep,
            fail_delete: self.fail.clone(),
        };
        let id = self.keyvals.create(ObjectKind::Comm, Box::new(cb));
        self.keyvals.get(ObjectKind::Comm, id).unwrap()
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.log.borrow_mut())
    }
}

#[test]
fn copies_in_order_and_deletes_last_first() {
    let f = Fixture::new();
    let (a, b, c) = (f.keyval(true), f.keyval(false), f.keyval(true));
    let one = Attributes::default();
    one.set(1, &a, 10).unwrap();
    one.set(1, &b, 20).unwrap();
    one.set(1, &c, 30).unwrap();
    let two = Attributes::default();
    one.copy_to(1, &two).unwrap();
    assert_eq!(f.said(), ["copy 1 10", "copy 1 20", "copy 1 30"]);
    assert_eq!(
        (two.get(a.id), two.get(b.id), two.get(c.id)),
        (Some(110), None, Some(130))
    );
    one.delete_all(1).unwrap();
    assert_eq!(f.said(), ["delete 1 30", "delete 1 20", "delete 1 10"]);
}

#[test]
fn overwriting_deletes_the_old_value() {
    let f = Fixture::new();
    let a = f.keyval(true);
    let one = Attributes::default();
    one.set(1, &a, 10).unwrap();
    one.set(1, &a, 11).unwrap();
    assert_eq!(f.said(), ["delete 1 10"]);
    assert_eq!(one.get(a.id), Some(11));
    one.delete(1, &a).unwrap();
    assert_eq!(one.delete(1, &a).unwrap_err().class, ErrorClass::Keyval);
}

#[test]
fn a_callbacks_code_comes_through() {
    let f = Fixture::new();
    let a = f.keyval(true);
    let one = Attributes::default();
    one.set(1, &a, 99).unwrap();
    assert_eq!(
        one.copy_to(1, &Attributes::default()).unwrap_err().code,
        Some(777)
    );
    f.fail.set(55);
    assert_eq!(one.delete(1, &a).unwrap_err().code, Some(55));
    assert_eq!(one.delete_all(1).unwrap_err().code, Some(55));
    assert_eq!(one.get(a.id), Some(99));
}

#[test]
fn a_freed_keyval_lives_with_its_attributes() {
    let f = Fixture::new();
    let a = f.keyval(true);
    let one = Attributes::default();
    one.set(1, &a, 10).unwrap();
    f.keyvals.free(ObjectKind::Comm, a.id).unwrap();
    assert_eq!(
        f.keyvals.get(ObjectKind::Comm, a.id).unwrap_err().class,
        ErrorClass::Keyval
    );
    let found = f.keyvals.find(ObjectKind::Comm, a.id).unwrap();
    f.keyvals.free(ObjectKind::Comm, a.id).unwrap();
    let id = a.id;
    drop(a);
    one.delete(1, &found).unwrap();
    assert_eq!(f.said(), ["delete 1 10"]);
    drop(found);
    for gone in [
        f.keyvals.find(ObjectKind::Comm, id).map(drop),
        f.keyvals.free(ObjectKind::Comm, id),
    ] {
        assert_eq!(gone.unwrap_err().class, ErrorClass::Keyval);
    }
    assert_eq!(
        f.keyvals.free(ObjectKind::Type, 1024).unwrap_err().class,
        ErrorClass::Keyval
    );
}
